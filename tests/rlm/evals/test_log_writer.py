"""Logs on disk: what is written is there, whole; what was cut off is repaired; what does not fit is refused."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from rlm.evals.log import EvalLogError, LogEntry, find_log, read_log
from rlm.evals.log_writer import LogWriter
from tests.support.eval_logs import entry, header, write


def test_entries_come_back_and_a_later_one_replaces_the_earlier(tmp_path: Path) -> None:
    odd = entry("b", 0.25, outputs={"answer": "half \ud800 of it \u2028"}, fields={"answer": {"found": 1.0}})
    failed = entry("a", 0.0, ending="Failed", outputs=None, error="model:rate: too busy")
    folder = write(tmp_path / "log", [failed, odd, entry("a", 1.0), entry("a", 0.5, epoch=2)])
    log = read_log(folder)
    assert [one.key for one in log.entries] == [("a", 1), ("b", 1), ("a", 2)]
    assert [one.score for one in log.entries] == [1.0, 0.25, 0.5]
    assert log.entries[1] == odd
    assert len((folder / "samples.jsonl").read_text().splitlines()) == 4


def test_what_a_later_version_adds_to_a_line_does_not_hurt() -> None:
    assert LogEntry.from_dict({**entry("a").to_dict(), "colour": "blue"}) == entry("a")


def test_a_file_that_was_cut_anywhere_keeps_every_whole_line_and_goes_on(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", [entry(name) for name in "abc"])
    samples = folder / "samples.jsonl"
    data = samples.read_bytes()
    lines = data.splitlines(keepends=True)
    assert len(lines) == 3
    start = len(lines[0]) + len(lines[1])
    for cut in (*range(start, start + 3), *range(start + 3, len(data) - 3, 11), *range(len(data) - 3, len(data) + 1)):
        samples.write_bytes(data[:cut])
        # The third line is there when nothing of it is missing but the end of the line.
        whole = 3 if cut >= len(data) - 1 else 2
        assert len(read_log(folder).entries) == whole, cut
        with LogWriter(folder, header(3)) as writer:
            writer.append(entry("d"))
        assert [one.sample_id for one in read_log(folder).entries] == [*"abc"[:whole], "d"]
        assert samples.read_bytes().startswith(b"".join(lines[:whole]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not JSON", "Expecting value"),
        ("[]", "it is not a JSON object"),
        ('{"sample_id": "b"}', "suite, length, epoch, .* missing"),
        (json.dumps({**entry("b").to_dict(), "score": 7}), "score is 7, which is not between 0 and 1"),
        (
            json.dumps({**entry("b").to_dict(), "scores": {"answer": -0.5}}),
            "answer is -0.5, which is not between 0 and 1",
        ),
        (json.dumps({**entry("b").to_dict(), "confidence": math.nan}), "confidence is nan"),
    ],
)
def test_a_line_that_is_no_entry_is_named_with_what_to_do(tmp_path: Path, line: str, said: str) -> None:
    folder = write(tmp_path / "log", [entry("a"), entry("c")])
    samples = folder / "samples.jsonl"
    whole = samples.read_text()
    samples.write_text(whole.replace("\n", f"\n{line}\n", 1))
    with pytest.raises(
        EvalLogError, match=rf"samples\.jsonl, line 2 is not an entry: {said}.*\. Remove that line; the command"
    ):
        read_log(folder)
    samples.write_text(whole)  # as it says
    assert [one.sample_id for one in read_log(folder).entries] == ["a", "c"]


def test_only_one_process_writes_at_a_time(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", header(1)), pytest.raises(EvalLogError, match="another process is writing"):
        LogWriter(tmp_path / "log", header(1))
    LogWriter(tmp_path / "log", header(1)).close()


def test_another_header_is_refused_and_the_difference_is_said(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", [entry("a")])
    LogWriter(folder, header(1, started="2031-01-01T00:00:00+00:00", machine={"python": "4"})).close()
    with pytest.raises(EvalLogError) as caught:
        LogWriter(folder, header(1, seed=2, configuration={"budget": {"max_iterations": 3}}))
    said = str(caught.value)
    assert "seed: 1 there, 2 now" in said
    assert "configuration.budget.max_iterations: null there, 3 now" in said
    assert "  started: " not in said
    assert json.loads((folder / "header.json").read_text())["seed"] == 1


def test_keys_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-key-nobody-may-see")
    text = "models: {main: {model: openai/x, options: {api_key: a-key-nobody-may-see, other: sk-abcdefghijklmnopqrst}}}"
    folder = write(
        tmp_path / "log", [entry("a", outputs={"answer": "a-key-nobody-may-see"})], configuration={"text": text}
    )
    written = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"nobody-may-see" not in written
    assert b"sk-abcdef" not in written
    assert read_log(folder).entries[0].outputs == {"answer": "[secret]"}


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalLogError, match=r"it has no header\.json"):
        read_log(tmp_path)
    (tmp_path / "samples.jsonl").write_text("{}\n")
    with pytest.raises(EvalLogError, match=r"has a samples\.jsonl but no header\.json"):
        LogWriter(tmp_path, header(1))
    (tmp_path / "header.json").write_text('{"format": 99}')
    with pytest.raises(EvalLogError, match="of format 99"):
        read_log(tmp_path)
    (tmp_path / "header.json").write_text("{")
    with pytest.raises(
        EvalLogError, match=r"cannot be read: .*Restore it from a copy, or start again with another --log"
    ):
        read_log(tmp_path)
    for wrong in ({"total": "three"}, {"suites": {}}, {"suites": ["needle"]}):
        (tmp_path / "header.json").write_text(json.dumps({**header(1), **wrong}))
        with pytest.raises(
            EvalLogError, match=rf"header\.json is damaged: {next(iter(wrong))} cannot be read\. Restore it"
        ):
            read_log(tmp_path)


def test_logs_are_found_by_path_and_by_the_beginning_of_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    for name in ("needle-1", "needle-12", "count-1"):
        write(tmp_path / "evals" / name, [entry("a")])
    assert find_log("count").name == "count-1"
    assert find_log("needle-1").name == "needle-1"
    assert find_log(tmp_path / "evals" / "needle-12").name == "needle-12"
    with pytest.raises(EvalLogError, match="2 logs have names that start with 'needle': "):
        find_log("needle")
    with pytest.raises(EvalLogError, match="there is no log 'pairs'"):
        find_log("pairs")


def test_nothing_is_left_over_beside_the_three_files(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", header(1)) as writer:
        writer.append(entry("a"))
        writer.summarize({"score": 1})
        writer.summarize({"score": 2})
    assert sorted(os.listdir(tmp_path / "log")) == ["header.json", "samples.jsonl", "summary.json"]
    assert json.loads((tmp_path / "log" / "summary.json").read_text()) == {"score": 2}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "all of it"}, "line 1 is not an entry: score is 'all of it'"),
        ({"scores": {"answer": None}}, "line 1 is not an entry: a score is not a number"),
        ({"usage": None}, "line 1 is not an entry: usage is None"),
        ({"epoch": True}, "line 1 is not an entry: epoch is True"),
    ],
)
def test_a_line_that_no_numbers_can_be_made_of_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    folder = write(tmp_path / "log", [entry("a")])
    (folder / "samples.jsonl").write_text(json.dumps({**entry("a").to_dict(), **change}) + "\n")
    with pytest.raises(EvalLogError, match=said):
        read_log(folder)


def test_files_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", [entry("a")])
    (folder / "samples.jsonl").unlink()
    assert read_log(folder).entries == ()
    (folder / "samples.jsonl").mkdir()
    with pytest.raises(EvalLogError, match=r"samples\.jsonl cannot be read: Is a directory"):
        read_log(folder)
    (folder / "header.json").write_text('{"format": 1, "suites": []}')
    with pytest.raises(
        EvalLogError, match="not the header of an evaluation: lengths, seed, epochs, total, models missing"
    ):
        read_log(folder)
