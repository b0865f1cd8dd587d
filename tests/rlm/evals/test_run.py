"""`evaluate` and `open_evaluation`, the interface for Python."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

import rlm
from rlm.evals import EvalLogError, EvalSettings, Evaluation, LogEntry, open_evaluation, read_log, summarize
from rlm.evals.run import new_log_folder
from rlm.tasks import TaskError

ORACLE = {"main": "oracle"}
SHORT = {"models": ORACLE, "lengths": [4_000], "seed": 3, "trace": False}


def test_a_suite_is_run_and_the_same_call_runs_only_what_is_missing(tmp_path: Path) -> None:
    entries: list[LogEntry] = []
    options = {**SHORT, "count": 3, "log": tmp_path / "log", "at_once": 2, "on_entry": entries.append}
    log = rlm.evaluate("needle", **options)
    assert log.complete
    assert sorted(entry.sample_id for entry in entries) == [f"needle-4000-3-{index}" for index in range(3)]
    assert log.entries == read_log(tmp_path / "log").entries
    entries.clear()
    (tmp_path / "log" / "samples.jsonl").write_text(
        "".join((tmp_path / "log" / "samples.jsonl").read_text().splitlines(keepends=True)[:2])
    )
    assert rlm.evaluate(["needle"], **options).complete
    assert len(entries) == 1
    summary = summarize(log)
    assert summary.all is not None
    assert (summary.total, summary.all.samples) == (3, 3)


def test_it_can_be_called_where_an_event_loop_runs(tmp_path: Path) -> None:
    async def call() -> bool:
        return rlm.evaluate("needle", **SHORT, count=1, log=tmp_path / "log").complete

    assert asyncio.run(call())


def test_no_more_samples_are_started_once_enough_is_spent(tmp_path: Path) -> None:
    log = rlm.evaluate("needle", **SHORT, count=3, log=tmp_path / "log", max_cost=0.0)
    assert (len(log.entries), log.total, log.complete) == (0, 3, False)


def test_a_log_of_other_settings_and_a_model_that_is_no_model_are_refused(tmp_path: Path) -> None:
    rlm.evaluate("needle", **SHORT, count=1, log=tmp_path / "log", max_cost=0.0)
    with pytest.raises(EvalLogError, match="started with other settings"):
        rlm.evaluate("needle", **SHORT, count=2, log=tmp_path / "log")
    with pytest.raises(EvalLogError, match="no suite 'nedle'"):
        rlm.evaluate("nedle", **SHORT, log=tmp_path / "other")
    with pytest.raises(TaskError, match="max_iterations"):
        rlm.evaluate("needle", **SHORT, budget={"max_iterations": -1}, log=tmp_path / "other")
    assert not (tmp_path / "other").exists()


async def test_an_open_evaluation_says_what_is_left_and_can_repeat_some_runs(tmp_path: Path) -> None:
    evaluation = Evaluation(("needle",), EvalSettings(models=ORACLE), (4_000,), 2, 3)
    with open_evaluation(evaluation, tmp_path / "log") as run:
        assert (run.todo, run.kept, run.replaced) == (2, (), ())
        await run.run(at_once=2)
        summary = run.finish()
    assert summary.all is not None
    key = ("needle-4000-3-0", 1)
    with open_evaluation(evaluation, tmp_path / "log", only={key}) as run:
        assert (run.todo, [entry.key for entry in run.replaced]) == (1, [key])
        repeated: list[LogEntry] = []
        await run.run(repeated.append)
    assert [entry.key for entry in repeated] == [key]
    log = read_log(tmp_path / "log")
    assert (len(log.entries), [entry.key for entry in log.replaced]) == (2, [key])


def test_new_logs_have_names_of_their_own() -> None:
    first = new_log_folder(["a/mine.jsonl"], "direct")
    first.mkdir(parents=True)
    second = new_log_folder(["a/mine.jsonl"], "direct")
    assert first != second
    assert first.name.startswith("mine-direct-")
    assert new_log_folder(["needle", "count"]).name.startswith("2-suites-")


def test_every_option_is_documented() -> None:
    described = inspect.getdoc(rlm.evaluate) or ""
    assert [name for name in inspect.signature(rlm.evaluate).parameters if name not in described] == []
