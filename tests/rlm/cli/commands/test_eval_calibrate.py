"""`rlm eval calibrate`: from logs to a file, or to a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import rlm.cli
from rlm.calibration import load
from rlm.evals.log import LogEntry
from rlm.evals.log_writer import LogWriter
from tests.support.calibration_answers import entries_of, honest, make_answers, telling


def write_log(folder: Path, entries: list[dict[str, Any]]) -> Path:
    header: dict[str, Any] = {"format": 1, "suites": [{"name": "made", "path": None}], "lengths": [4_000]}
    header |= {"seed": 1, "epochs": 1, "total": len(entries)}
    header |= {"models": {"main": "scripted/main", "sub": "scripted/sub"}}
    with LogWriter(folder, header) as log:
        for entry in entries:
            log.append(LogEntry.from_dict(entry))
    return folder


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(["eval", "calibrate", *words])
    out, err = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def test_a_calibrator_is_written_with_what_it_rests_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    answers = make_answers(telling, 240, fields=(1, 2))
    first = write_log(tmp_path / "one", entries_of(answers[:120]))
    second = write_log(tmp_path / "two", entries_of(answers[120:]))
    out, plot = tmp_path / "c.json", tmp_path / "c.svg"
    code, said, _ = run(capfd, str(first), str(second), "--out", str(out), "--plot", str(plot))
    assert code == 0
    calibrator = load(out)
    origin = calibrator.fitted_on
    assert (origin["suites"], origin["logs"], origin["samples"]) == (["made"], ["one", "two"], 240)
    assert origin["models"] == ["scripted/main", "scripted/sub"]
    before, after = (calibrator.measures["fields"][one]["brier"] for one in ("before", "after"))
    assert after < before
    for words in ("accepted", "ECE", "Brier", "AUROC", "error at 50%", "logistic", "isotonic", "accept_at", str(out)):
        assert words in said
    picture = ElementTree.parse(plot).getroot()
    texts = [node.text or "" for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "fields: calibration" in texts
    assert "whole answers: risk and coverage" in texts
    lines = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len([line for line in lines if line.get("stroke-opacity") != "0.5"]) == 2 * (3 + 2)  # but for the intervals


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_number_is_cut_in_a_narrow_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    log = write_log(tmp_path / "log", entries_of(make_answers(telling, 240, fields=(1, 2))))
    code, said, _ = run(capfd, str(log), "--out", str(tmp_path / "c.json"))
    assert code == 0
    assert max(map(len, said.splitlines())) <= width
    assert "…" not in said
    logistic = [line.split() for line in said.splitlines() if line.startswith("  logistic")]
    assert [len(cells) - 1 for cells in logistic] == ([7, 7] if width == 120 else [3, 3, 4, 4])
    assert "accept_at error  threshold  accepts  wrong  at most" in said


def test_one_that_does_not_help_is_refused_and_not_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log", entries_of(make_answers(honest, 200)))
    out = tmp_path / "c.json"
    code, said, _ = run(capfd, str(log), "--out", str(out))
    assert code == 1
    assert "refused" in said
    assert "Nothing was written" in said
    assert not out.exists()
    code, said, _ = run(capfd, str(log), "--out", str(out), "--json")
    facts = json.loads(said)
    assert (code, facts["accepted"], facts["out"]) == (1, False, None)
    assert facts["answers"]["brier_difference"]["high"] >= 0 or facts["fields"]["brier_difference"]["high"] >= 0
    assert not out.exists()


def test_a_log_of_failed_runs_has_nothing_to_learn_from(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log", entries_of(make_answers(telling, 60), "Failed"))
    code, _, said = run(capfd, str(log), "--out", str(tmp_path / "c.json"))
    assert code == 1
    assert "No calibrator: one half of the data has 0 samples with an answer" in said
    assert "60 failed; 0 answers" in said


def test_submitted_and_extracted_answers_are_reported_one_by_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = make_answers(telling, 100)
    entries = [*entries_of(answers[:50], "Submitted"), *entries_of(answers[50:])]
    code, said, _ = run(capfd, str(write_log(tmp_path / "log", entries)), "--out", str(tmp_path / "c.json"))
    assert code == 0
    assert all(words in said for words in ("submitted, without the calibrator", "extracted, with the calibrator"))


def test_bad_usage_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log", entries_of(make_answers(telling, 100)))
    code, _, said = run(capfd, str(log), "--plot", str(tmp_path / "c.png"))
    assert (code, "--plot writes an SVG file; name it c.svg" in said) == (2, True)
    (tmp_path / "file").touch()
    code, _, said = run(capfd, str(log), "--out", str(tmp_path / "file" / "c.json"))
    assert (code, "cannot be written (" in said) == (2, True)
    assert run(capfd, str(log), "--out", str(tmp_path / "new" / "c.json"))[0] == 0
    assert (tmp_path / "new" / "c.json").exists()
    assert run(capfd, str(tmp_path / "nothing"))[0] == 2


@pytest.mark.parametrize("option", ["--error", "--right"])
def test_what_is_no_number_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str) -> None:
    log = write_log(tmp_path / "log", entries_of(make_answers(telling, 2)))
    code, _, said = run(capfd, str(log), option, "nan", "--out", str(tmp_path / "c.json"))
    assert code == 2
    assert f"'{option}': 'nan' is no number" in said
