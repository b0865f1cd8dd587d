"""The handle of a run: started in the background, watched, awaited, cancelled, looked at meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import rlm
from rlm import events
from rlm.models.scripted import scripted_lm
from rlm.results import Extracted, Failed, FailureCause, Submitted
from rlm.signatures import InvalidInputs
from rlm.traces import find


def cell(code: str) -> str:
    return f"I go on.\n```python\n{code}\n```"


def predict(pool: Any, *replies: str, **options: Any) -> rlm.Predict:
    signature = options.pop("signature", "doc -> n: int")
    return rlm.Predict(signature, lm=scripted_lm(list(replies)), pool=pool, **options)


def test_a_run_has_its_id_from_the_beginning_and_its_result_at_the_end(pool: Any) -> None:
    run = predict(pool, cell("x = 3\nprint(x)"), cell("SUBMIT(n=x)")).start(doc="text")
    assert len(run.id) == 12
    assert "not started" not in repr(run)
    result = run.result(timeout=60)
    assert run.done
    assert isinstance(result, Submitted)
    assert (result.run_id, result.outputs.n, result.iterations, result.llm_calls) == (run.id, 3, 2, 0)
    assert [entry.iteration for entry in result.history] == [1, 2]
    assert run.partial_result() is result
    assert find(run.id).ending == "submitted"


def test_events_are_iterated_from_the_first_one_on(pool: Any) -> None:
    run = predict(pool, cell("SUBMIT(n=1)")).start(doc="text")
    run.result(timeout=60)
    seen = list(run)
    assert isinstance(seen[0], events.RunStarted)
    assert isinstance(seen[-1], events.RunEnded)
    assert seen[-1].result is run.result()
    assert [event.code for event in seen if isinstance(event, events.CellStarted)] == ["SUBMIT(n=1)"]
    assert list(run) == seen


def test_a_partial_result_has_the_iterations_so_far(pool: Any) -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        """Wait."""
        entered.set()
        assert leave.wait(60)

    run = predict(pool, cell("x = 3"), cell("wait()\nSUBMIT(n=x)"), tools=[wait]).start(doc="text")
    assert entered.wait(60)
    partial = run.partial_result()
    leave.set()
    assert isinstance(partial, Failed)
    assert (partial.run_id, partial.iterations, partial.cause) == (run.id, 1, FailureCause("interrupted"))
    assert [(entry.iteration, entry.code) for entry in partial.history] == [(1, "x = 3"), (2, "wait()\nSUBMIT(n=x)")]
    assert run.result(timeout=60).outputs.n == 3


def test_a_cancelled_run_is_failed_with_what_there_was_and_can_be_resumed(pool: Any) -> None:
    entered = threading.Event()

    async def wait() -> None:
        """Wait."""
        entered.set()
        await asyncio.sleep(60)

    replies = [cell("x = 3"), cell("wait()"), cell("SUBMIT(n=x)")]
    run = predict(pool, *replies, tools=[wait]).start(doc="text")
    assert entered.wait(60)
    run.cancel()
    result = run.result(timeout=60)
    assert isinstance(result, Failed)
    assert (result.reason, str(result.cause), result.iterations) == ("interrupted", "interrupted", 1)
    assert [type(event) for event in run][-1] is events.RunInterrupted

    def go() -> None:
        """Go on."""

    resumed = predict(pool, replies[2], tools={"wait": go}).resume(run.id)
    assert (resumed.outputs.n, resumed.iterations) == (3, 3)


def test_several_runs_go_on_at_once(pool: Any) -> None:
    met = threading.Barrier(2)

    def meet() -> int:
        """Meet the other run."""
        return met.wait(60)

    one = predict(pool, cell("SUBMIT(n=meet())"), tools=[meet])
    other = predict(pool, cell("SUBMIT(n=meet())"), tools=[meet])
    results = [run.result(timeout=60) for run in (one.start(doc="a"), other.start(doc="b"))]
    assert sorted(result.outputs.n for result in results) == [0, 1]


async def test_a_run_is_awaited_and_its_events_iterated_without_blocking(pool: Any) -> None:
    run = predict(pool, cell("print(1)"), cell("SUBMIT(n=2)")).start(doc="text")
    kinds = [event.kind async for event in run]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_ended")
    assert (await run).outputs.n == 2


async def test_a_run_in_the_loop_of_the_caller_stops_with_whoever_awaits_it(pool: Any) -> None:
    entered = asyncio.Event()

    async def wait() -> None:
        """Wait."""
        entered.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(predict(pool, cell("wait()"), tools=[wait]).arun_with_fallback(doc="text"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_inputs_are_checked_before_anything_is_started(pool: Any) -> None:
    with pytest.raises(InvalidInputs):
        predict(pool).start(document="text")


def test_every_ending_carries_the_same(pool: Any) -> None:
    stop = rlm.FallbackTrigger(max_iterations=1)
    submitted = predict(pool, cell("SUBMIT(n=1)")).run_with_fallback(doc="text")
    extraction = scripted_lm(['{"n": 5}'])
    extracted = predict(pool, cell("n = 5\nprint(n)"), extraction_lm=extraction, trigger=stop).run_with_fallback(
        doc="x"
    )
    failed = predict(pool).run_with_fallback(doc="text")
    assert (type(submitted), type(extracted), type(failed)) == (Submitted, Extracted, Failed)
    for result in (submitted, extracted, failed):
        assert result.iterations == len(result.history)
        assert result.llm_calls == 0
        assert result.usage.seconds > 0
        assert isinstance(result.evidence, tuple)
        assert find(result.run_id).id == result.run_id
    assert extracted.evidence
    assert failed.cause is not None
    assert failed.cause.source == "model"


async def test_a_started_run_outlives_a_task_that_awaits_it_and_can_be_cancelled() -> None:
    release = threading.Event()

    def wait() -> str:
        """Wait."""
        release.wait(60)
        return "later"

    predict = rlm.Predict(
        "question -> answer", lm=scripted_lm(["```python\nwait()\n```"]), tools=[wait], record=False, max_iterations=3
    )
    run = predict.start(question="What?")
    waiter = asyncio.ensure_future(_awaited(run))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    assert waiter.cancelled()
    assert not run.done
    run.cancel()
    result = await asyncio.to_thread(run.result, 60)
    release.set()
    assert str(result.cause) == "interrupted"


async def _awaited(run: rlm.Run) -> object:
    return await run
