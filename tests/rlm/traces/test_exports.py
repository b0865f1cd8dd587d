"""A run in other forms, two runs compared, old runs removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm.traces import RunRecord, TraceWriter, load
from rlm.traces.diff import compare
from rlm.traces.export import notebook as notebook_module
from rlm.traces.export.formats import export, run_json
from rlm.traces.prune import prune
from tests.support.events import make_event
from tests.support.replies import cell
from tests.support.trace_scripts import DOC

Record = Callable[..., RunRecord]


def _outputs(cells: list[Any]) -> list[str]:
    return ["".join(one.get("text", "") or one.get("ename", "") for one in each.outputs) for each in cells]


def test_a_notebook_of_a_run_runs_again_in_the_sandboxed_kernel(record: Record) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    run = record(
        [
            cell("print(len(doc), peek(doc, 0, 6), settings['depth'])"),
            cell("print(llm_query('Is it so?'), llm_query('And now?'), llm_batch(['a', 'b']))"),
            cell("print(1 / 0)", "Look: <img src=x> ![](http://example.com/x.png)"),
            cell("SUBMIT(n=1)"),
        ],
        signature="doc, settings: dict -> n: int",
        sub=["yes", "no", "one", "two"],
        doc=DOC,
        settings={"depth": 3},
    )
    text, notes = export(run, "ipynb")
    assert notes == []
    made = nbformat.reads(text, 4)
    nbformat.validate(made)
    assert made.metadata.kernelspec.name == "rlm-sandbox"
    markdown = "\n".join(one.source for one in made.cells if one.cell_type == "markdown")
    assert "<img" not in markdown
    assert "![](" not in markdown
    recorded = _outputs([one for one in made.cells if one.cell_type == "code"])
    nbclient.NotebookClient(made, kernel_name="rlm-sandbox", allow_errors=True, timeout=60).execute()
    again = _outputs([one for one in made.cells if one.cell_type == "code"])
    assert recorded[2:5] == [f"{len(DOC)} line 0 3\n", "yes no ['one', 'two']\n", "ZeroDivisionError"]
    assert again[:5] == recorded[:5]
    assert again[5].startswith("SUBMIT was called")


def test_an_input_that_is_too_large_for_a_notebook_is_named(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_module, "MAX_PACKED", 100)
    run = record([cell("SUBMIT(n=1)")], doc=DOC)
    text, (note,) = export(run, "ipynb")
    assert "'doc'" in note
    assert "doc = None" in "".join(json.loads(text)["cells"][1]["source"])


def test_json_and_lines_hold_everything(record: Record) -> None:
    run = record([cell("print(llm_query('Is it so?'), len(doc))"), cell("SUBMIT(n=1)")], doc=DOC)
    whole = json.loads(export(run, "json")[0])
    assert whole["inputs"] == {"doc": DOC}
    assert whole["iterations"][0]["output"] == f"yes {len(DOC)}"
    assert whole["prompts"][0]["reply"] == run.prompts()[0].reply
    assert whole["result"] == run.result()
    assert json.loads(json.dumps(run_json(run)))["inputs"]["doc"]["size"] == len(DOC)
    lines = [json.loads(line) for line in export(run, "jsonl")[0].splitlines()]
    assert [line["sequence"] for line in lines] == list(range(1, run.event_count + 1))
    assert lines[0]["data"]["inputs"]["doc"] == DOC


def test_two_runs_are_compared_iteration_by_iteration(record: Record) -> None:
    first = record([cell("x = 1\nprint(x)"), cell("print('a')"), cell("SUBMIT(n=1)")])
    same = record([cell("x = 1\nprint(x)"), cell("print('a')"), cell("SUBMIT(n=1)")])
    other = record([cell("x = 1\nprint(x)"), cell("SUBMIT(n=2)")], doc="another text")
    assert compare(first, same).diverged_at is None
    difference = compare(first, other)
    assert difference.diverged_at == 2
    assert difference.iterations[1].code.splitlines()[1:] == ["-print('a')", "+SUBMIT(n=2)"]
    assert difference.iterations[2].only_in == "first"
    assert [(one.first, one.second) for one in difference.outputs] == [(1, 2)]
    assert "inputs.doc" in {one.name for one in difference.facts if not one.same}
    json.dumps(difference.to_dict())


def _write(home: Path, name: str, when: float, size: int, parent: str | None = None) -> None:
    text = "".join(f"{name}{number:07d}" for number in range(size // (len(name) + 7)))
    with TraceWriter(home) as writer:
        start = {"inputs": {"doc": text, "shared": "s" * 50_000}, "parent": parent, "depth": int(parent is not None)}
        writer(make_event("run_started", name, start, when))
        writer(make_event("run_ended", name, {"ending": "Submitted"}, when + 1))
        assert writer.flush(30)


def test_old_runs_are_removed_with_what_only_they_needed(tmp_path: Path) -> None:
    day = 86_400.0
    _write(tmp_path, "old", 1 * day, 200_000)
    _write(tmp_path, "child", 1 * day + 5, 1_000, parent="old")
    _write(tmp_path, "new", 90 * day, 200_000)
    would = prune(tmp_path, older=30 * day, now=100 * day, dry_run=True)
    assert {run.id for run in would.removed} == {"old", "child"}
    assert would.after < would.before
    assert len(load(tmp_path)) == 3

    done = prune(tmp_path, older=30 * day, now=100 * day)
    assert {run.id for run in done.removed} == {"old", "child"}
    assert done.after < done.before
    (left,) = load(tmp_path)
    assert left.id == "new"
    assert left.inputs()["shared"] == "s" * 50_000
    assert len(left.inputs()["doc"]) > 190_000
    assert left.file.query("SELECT count(*) FROM bodies")[0][0] == 2
    assert left.file.query("PRAGMA integrity_check")[0][0] == "ok"


def test_the_oldest_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    for number in range(6):
        _write(tmp_path, f"run{number}", 1000.0 * number, 2_000_000)
    before = prune(tmp_path, older=1e12, dry_run=True).before
    done = prune(tmp_path, keep_bytes=before // 2)
    left = sorted(run.id for run in load(tmp_path))
    assert done.after <= before // 2 * 1.1
    assert 1 <= len(left) <= 3
    assert left == [f"run{number}" for number in range(6 - len(left), 6)]


def test_a_file_of_which_nothing_is_left_goes_and_one_that_is_written_stays(tmp_path: Path) -> None:
    _write(tmp_path, "old", 1.0, 1_000)
    with TraceWriter(tmp_path) as writer:
        writer(make_event("run_started", "live", {"inputs": {}}, 2.0))
        assert writer.flush(30)
        done = prune(tmp_path, older=10.0, now=1000.0)
        assert done.removed == ()  # the file was taken up again, and is being written
        assert "left alone" in done.notes[0]
    done = prune(tmp_path, older=10.0, now=1000.0)
    assert len(done.removed) == 2
    assert list((tmp_path / "traces").iterdir()) == []
    _write(tmp_path, "again", 5.0, 1_000)
    assert [run.id for run in load(tmp_path)] == ["again"]
