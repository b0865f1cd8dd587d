"""Samples through the real driver and the real sandbox: what is asked, how it is scored, what goes wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.evals.config import EvalSettings, Evaluation
from rlm.evals.log import EvalLogError, LogEntry
from rlm.evals.runner import EvaluationStopped, missing_runs, run_samples, selected_runs
from rlm.evals.scorers import SCORERS
from rlm.events import Event, fan_out, ignore
from rlm.models.policy import RequestPolicy, using
from rlm.models.rate_limit.bucket import Limit
from rlm.traces import TraceWriter, load
from sandbox.launch import Zygote
from tests.support.eval_logs import settings, suite


def evaluation(folder: Path, count: int = 3, script: str | None = None, **more: Any) -> Evaluation:
    path = settings(folder, script)
    return Evaluation((str(suite(folder, count)),), EvalSettings.read(path), count=None, **more)


def run(made: Evaluation, *, at_once: int = 2, observe: Any = ignore, done: Any = ()) -> list[LogEntry]:
    entries: list[LogEntry] = []
    asyncio.run(run_samples(made, missing_runs(made, done), entries.append, at_once=at_once, observe=observe))
    return sorted(entries, key=lambda one: one.key)


def test_samples_are_run_scored_and_on_record(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "home") as writer:
        entries = run(evaluation(tmp_path, epochs=2), observe=writer)
        assert writer.flush(60)
    assert [one.key for one in entries] == [(f"code-{n}", epoch) for n in range(3) for epoch in (1, 2)]
    first = entries[0]
    assert (first.ending, first.outputs, first.score, first.error) == ("Submitted", {"answer": 1000}, 1.0, None)
    assert first.expected == {"answer": 1000}
    assert first.usage["model_calls"] == 1
    runs = {run.id: run for run in load(tmp_path / "home")}
    assert {one.run_id for one in entries} == set(runs)
    assert runs[str(first.run_id)].ending == "submitted"
    task = runs[str(first.run_id)].resolve(runs[str(first.run_id)].beginning["task"])
    assert '"signature": "doc: str -> answer: int"' in task["text"]  # `rlm resume` and `replay` read it


def test_samples_may_be_answered_by_several_runs(tmp_path: Path) -> None:
    agreeing = EvalSettings.read(settings(tmp_path, agree=3))
    (entry,) = run(Evaluation((str(suite(tmp_path, 1)),), agreeing, count=None))
    assert (entry.ending, entry.score, entry.usage["model_calls"]) == ("Submitted", 1.0, 2)
    assert entry.fields["answer"]["compared"] == 1.0  # what a calibrator learns from


def test_no_more_than_so_many_are_run_at_once(tmp_path: Path) -> None:
    running: set[str] = set()
    most = []

    def watch(event: Event) -> None:
        if event.kind == "run_started":
            running.add(event.run_id)
        elif event.kind == "run_ended":
            running.discard(event.run_id)
        most.append(len(running))

    made = evaluation(tmp_path, 6)
    settings(tmp_path, sleep=0.1)
    assert len(run(made, at_once=2, observe=watch)) == 6
    assert max(most) == 2


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    made = evaluation(tmp_path, 3, epochs=2)
    done = {("code-0", 1), ("code-0", 2), ("code-2", 1)}
    assert [(one.id, epoch) for one, epoch in missing_runs(made, done)] == [("code-1", 1), ("code-1", 2), ("code-2", 2)]
    assert [(one.id, epoch) for one, epoch in selected_runs(made, done)] == sorted(done)


def test_nothing_is_begun_when_told_to_stop(tmp_path: Path) -> None:
    made, entries = evaluation(tmp_path, 5), []
    asyncio.run(run_samples(made, missing_runs(made, ()), entries.append, should_stop=lambda: len(entries) >= 2))
    assert len(entries) == 2


def test_a_wrong_answer_scores_nothing_and_is_no_error(tmp_path: Path) -> None:
    script = 'main: {"*": "```python\\nprint(doc)\\nSUBMIT(answer=7)\\n```"}'
    (one,) = run(evaluation(tmp_path, 1, script))
    assert (one.ending, one.score, one.scores, one.error) == ("Submitted", 0.0, {"answer": 0.0}, None)


def test_an_answer_of_four_hundred_digits_scores_nothing_and_the_rest_go_on(tmp_path: Path) -> None:
    code = """n = 10**400 if 'code 1001' in doc else int(doc.split('code ')[1][:4])\\nSUBMIT(answer=n)"""
    made = evaluation(tmp_path, 3, f'main: {{"*": "```python\\n{code}\\n```"}}')
    first, large, last = run(made)
    assert (first.score, last.score) == (1.0, 1.0)
    assert (large.ending, large.score, large.error, large.outputs) == ("Submitted", 0.0, None, {"answer": 10**400})


def test_what_cannot_be_scored_is_an_error_of_that_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(expected: Any, given: Any) -> float:
        return 1 / (given - 1001)

    monkeypatch.setitem(SCORERS, "exact", judge)
    first, broken, last = run(evaluation(tmp_path, 3))
    assert (first.error, last.error) == (None, None)
    assert (broken.ending, broken.score, broken.scores) == ("Submitted", 0.0, {"answer": 0.0})
    assert broken.error == "scoring:ZeroDivisionError: division by zero"


def test_a_fork_server_that_is_killed_is_an_error_of_that_sample(tmp_path: Path) -> None:
    made, pool, entries = evaluation(tmp_path, 8), sandbox.default_pool(), []
    killed = threading.Event()

    def kill(server: Zygote) -> None:
        end = time.monotonic() + 60
        # One kernel is for the sample, the other for those kept ready: both wait for the fork server.
        while len(server._orders) < 2 and time.monotonic() < end:
            time.sleep(0.005)
        os.kill(server.pid, signal.SIGKILL)
        killed.set()

    def done(entry: LogEntry) -> None:
        entries.append(entry)
        if len(entries) == 1:
            server = pool._zygote
            assert server is not None
            os.kill(server.pid, signal.SIGSTOP)
            threading.Thread(target=kill, args=[server], daemon=True).start()

    asyncio.run(run_samples(made, missing_runs(made, ()), done))
    assert killed.is_set()
    broken = [one for one in entries if one.error is not None]
    assert len(entries) == 8
    assert [one.score for one in entries if one not in broken] == [1.0] * (8 - len(broken))
    assert [str(one.error).split(": ")[0] for one in broken] == ["sandbox:KernelStartError"]
    assert "the fork server ended" in str(broken[0].error)


def test_where_no_kernel_starts_at_all_the_evaluation_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.launch._BOOT", "raise SystemExit('not on this machine')")
    with sandbox.Pool() as pool:
        monkeypatch.setattr("sandbox.pool._default", pool)
        with pytest.raises(EvaluationStopped, match="the fork server did not start"):
            run(evaluation(tmp_path, 3), at_once=1)


def test_a_model_that_cannot_be_asked_is_an_error_of_that_sample(tmp_path: Path) -> None:
    (one,) = run(evaluation(tmp_path, 1, "main: []"))
    assert (one.ending, one.score, one.outputs) == ("Failed", 0.0, None)
    assert one.error is not None
    assert one.error.startswith("model:")
    assert one.run_id


def test_a_run_without_an_answer_is_no_error_but_one_without_an_extraction_is(tmp_path: Path) -> None:
    looks = 'main: {"*": "```python\\nprint(doc)\\n```"}\n'
    (unanswered,) = run(evaluation(tmp_path, 1, looks + 'extraction: {"*": "no idea"}'))
    assert (unanswered.ending, unanswered.error) == ("Failed", None)
    (unasked,) = run(evaluation(tmp_path, 1, looks + "extraction: []"))
    assert unasked.error is not None
    assert unasked.error.startswith("model:")
    (extracted,) = run(evaluation(tmp_path, 1, looks + """extraction: {"*": '{"answer": 1000}'}"""))
    assert (extracted.ending, extracted.score) == ("Extracted", 1.0)
    assert 0 < extracted.confidence < 1
    assert set(extracted.fields) == {"answer"}
    assert all(isinstance(value, int | float) for value in extracted.fields["answer"].values())


def test_a_key_that_is_missing_stops_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = Evaluation((str(suite(tmp_path, 3)),), EvalSettings(models={"main": "openai/no-such-model"}), count=None)
    with pytest.raises(EvaluationStopped, match="key"):
        run(made)


def test_direct_prompting_has_the_whole_input_in_one_prompt(tmp_path: Path) -> None:
    script = """main: {"The code 1000 opens": '```json\\n{"answer": 1000}\\n```', "*": "I do not know"}"""
    events: list[Event] = []
    with TraceWriter(tmp_path / "home") as writer:
        made = evaluation(tmp_path, 2, script, baseline="direct")
        right, wrong = run(made, at_once=1, observe=fan_out(writer, events.append))
        assert writer.flush(60)
    assert (right.ending, right.outputs, right.score, right.usage["model_calls"]) == (
        "Submitted",
        {"answer": 1000},
        1.0,
        1,
    )
    assert (wrong.ending, wrong.score, wrong.error) == ("Failed", 0.0, None)
    assert wrong.reason == "no usable answer in 3 attempts"
    asked = next(event for event in events if event.kind == "model_asked").data["turns"][0][1]
    assert "What is the code?" in asked
    assert "Some words. The code 1000 opens the door." in asked
    assert '"type": "integer"' in asked
    recorded = {one.id: one for one in load(tmp_path / "home")}
    assert recorded[str(right.run_id)].ending == "submitted"
    assert [len(one.attempts) for one in (recorded[str(right.run_id)], recorded[str(wrong.run_id)])] == [1, 3]


def test_an_answer_of_another_type_is_asked_for_again(tmp_path: Path) -> None:
    script = """main: ['{"answer": "ten hundred"}', '{"answer": 1000}']"""
    (one,) = run(evaluation(tmp_path, 1, script, baseline="direct"))
    assert (one.outputs, one.score, one.usage["model_calls"]) == ({"answer": 1000}, 1.0, 2)


def test_time_in_the_line_is_no_time_of_a_direct_question(tmp_path: Path) -> None:
    # Three questions at once: the last one is due after four seconds, and each run has two.
    made = Evaluation(
        (str(suite(tmp_path, 3)),),
        EvalSettings.read(settings(tmp_path, """main: {"*": '{"answer": 1000}'}"""), budget={"max_duration": 2.0}),
        count=None,
        baseline="direct",
    )
    limits = {"scripted/main": Limit(requests=30)}
    with using(RequestPolicy(rate_limit_folder=str(tmp_path / "pace"), limits=limits)):
        assert [one.ending for one in run(made, at_once=3)] == ["Submitted"] * 3


def test_an_input_that_does_not_fit_scores_nothing_and_is_counted(tmp_path: Path) -> None:
    oracle = EvalSettings(models={"main": "oracle"}, error_rate=0.0)
    made = Evaluation(("needle",), oracle, lengths=(16_000, 256_000), count=1, baseline="direct")
    short, long = sorted(run(made), key=lambda one: one.length)
    assert (short.score, short.error) == (1.0, None)
    assert (long.score, long.ending, long.too_long) == (0.0, "Failed", True)
    assert long.error is not None
    assert long.error.startswith("model:context: ")


def test_the_oracle_goes_through_the_driver(tmp_path: Path) -> None:
    made = Evaluation(("needle",), EvalSettings(models={"main": "oracle"}, error_rate=0.0), lengths=(16_000,), count=2)
    entries = run(made)
    assert [one.length for one in entries] == [16_000, 16_000]
    assert all(one.run_id and one.usage["model_calls"] for one in entries)
    assert sum(one.score for one in entries) >= 1


def test_a_header_makes_the_same_evaluation_again(tmp_path: Path) -> None:
    made = evaluation(tmp_path, 3, epochs=2)
    header = made.header()
    assert header["total"] == 6
    again = Evaluation.from_header(header)
    assert again.header() == header
    assert [one.id for one in again.samples()] == ["code-0", "code-1", "code-2"]
    suite(tmp_path, 4)
    with pytest.raises(EvalLogError, match=r"codes\.jsonl has changed since the log was started"):
        Evaluation.from_header(header)


def test_a_whole_task_file_will_do_for_settings(tmp_path: Path) -> None:
    path = settings(tmp_path, signature="x -> y: str", instructions="?", inputs={"x": {"file": "gone"}}, checks=["y"])
    made = Evaluation((str(suite(tmp_path, 1)),), EvalSettings.read(path), count=None)
    (one,) = run(made)
    assert one.outputs == {"answer": 1000}
