"""`run_batch` and `open_batch`, the interface for Python."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import rlm
from rlm.batch import BatchError, BatchRun, Outcome
from rlm.batch.errors import BatchInUse
from rlm.batch.run import default_output
from rlm.batch.source import Rows
from rlm.tasks import TaskError
from tests.support import batches


@pytest.mark.processes
def test_a_file_of_rows_is_run_and_the_same_call_runs_only_what_is_missing(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 5)
    outcomes: list[Outcome] = []
    options = {"workers": 1, "trace": False, "on_outcome": outcomes.append}
    summary = rlm.run_batch(folder / "task.yaml", folder / "rows.csv", limit=3, **options)
    assert (summary.total, summary.left, summary.unsuccessful, summary.stop_reason) == (3, 0, 0, None)
    assert summary.output == folder / "task.rows.results.jsonl"
    assert {outcome.name: outcome.outputs for outcome in outcomes} == {f"row {n}": {"twice": 2 * n} for n in (1, 2, 3)}
    outcomes.clear()
    summary = rlm.run_batch(str(folder / "task.yaml"), str(folder / "rows.csv"), **options)
    assert sorted(outcome.name for outcome in outcomes) == ["row 4", "row 5"]
    assert summary.endings["Submitted"].count == 5
    assert {line["item"]: line["outputs"]["twice"] for line in summary.results()} == {
        f"row {n}": 2 * n for n in range(1, 6)
    }


@pytest.mark.processes
def test_rows_can_be_mappings_whose_values_are_taken_as_they_are(tmp_path: Path) -> None:
    replies = batches.REPLIES.replace("2 * n", "len(word['file']) + n")
    task = batches.TASK.replace("word: str", "word: dict[str, str]")
    folder = batches.write_folder(tmp_path, 0, task=task, replies=replies)
    rows = [{"n": 1, "word": {"file": "no such file"}, "id": "a"}, {"n": 2, "word": {"file": ""}}]
    with rlm.open_batch(folder / "task.yaml", rows, workers=1, trace=False) as batch:
        outcomes = {outcome.name: outcome for outcome in batch}
    assert {name: outcome.outputs for name, outcome in outcomes.items()} == {
        "a": {"twice": 13},
        "row 2": {"twice": 2},
    }


def test_mistakes_in_rows_are_reported_before_anything_runs(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 0)
    with pytest.raises(TaskError) as caught:
        rlm.run_batch(folder / "task.yaml", [{"n": "x", "word": "a"}, {"word": "b"}])
    assert [str(problem) for problem in caught.value.problems] == [
        "row 1: input 'n': expected int, got \"x\" (a string)",
        "row 2: input 'n' (int) is missing",
    ]
    with pytest.raises(TaskError, match="row 1: is list; each row must be a mapping"):
        rlm.run_batch(folder / "task.yaml", [["x"]])  # type: ignore[list-item]
    with pytest.raises(TaskError, match="is empty"):
        rlm.run_batch(folder / "task.yaml", [])
    assert list(folder.glob("*.jsonl")) == []


@pytest.mark.processes
def test_a_batch_can_be_stopped_and_its_state_read_while_it_runs(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 30)
    with rlm.open_batch(folder / "task.yaml", folder / "rows.csv", workers=1, at_once=1, trace=False) as batch:
        assert isinstance(batch, BatchRun)
        assert batch.state.total == 30
        for _ in batch:
            batch.stop("that is enough")
        summary = batch.summary()
        with (
            pytest.raises(BatchInUse),
            rlm.open_batch(folder / "task.yaml", folder / "rows.csv", workers=1),
        ):
            pass
    assert summary.stop_reason == "that is enough"
    assert 0 < summary.left < 30
    assert issubclass(BatchInUse, BatchError)


def test_a_mistake_in_a_tool_is_reported_before_anything_runs(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 1, task=batches.TASK + "tools: [no_such_module_here:f]\n")
    with pytest.raises(TaskError, match="no_such_module_here"):
        rlm.run_batch(folder / "task.yaml", folder / "rows.csv")


@pytest.mark.parametrize(
    ("files", "rows", "wanted"),
    [
        (["a/task.yaml"], Path("b/rows.csv"), "b/task.rows.results.jsonl"),
        (["a/task.yaml"], [{"n": 1}], "a/task.results.jsonl"),
        (["a/tasks.jsonl"], None, "a/tasks.results.jsonl"),
        (["a/1.yaml", "b/2.yaml"], None, "a/tasks.results.jsonl"),
    ],
)
def test_results_are_written_beside_the_rows_or_the_tasks(files: list[str], rows: Rows | None, wanted: str) -> None:
    assert default_output([Path(file) for file in files], rows) == Path(wanted)


def test_every_option_is_documented() -> None:
    described = inspect.getdoc(rlm.open_batch) or ""
    assert [name for name in inspect.signature(rlm.open_batch).parameters if name not in described] == []
