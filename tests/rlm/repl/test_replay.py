"""A run that goes on from its record: no model is asked for what was answered before, and the variables are there."""

from __future__ import annotations

import asyncio
import json

import pytest

from rlm.budgets import FallbackTrigger, Usage
from rlm.repl.replay import RecordedCall, RecordedIteration, RecordedRun
from rlm.results import Extracted, Submitted


def fenced(code):
    return f"```python\n{code}\n```"


def past_of(events, run_id="before", usage=None):
    """What a trace would know of a run, from its events."""
    iterations = []
    for event in events:
        data = event.data
        match event.kind:
            case "model_answered" if data.get("role", "main") == "main":
                iterations.append([data["text"], [], None])
            case "call_ended" if data["answer"] is not None or data["error"]:
                answer = json.loads(data["answer"]) if data["answer"] is not None else None
                arguments = next(
                    one.data["arguments"]
                    for one in events
                    if one.kind == "call_started" and one.data["id"] == data["id"]
                )
                iterations[-1][1].append(RecordedCall(data["name"], arguments, answer, data["error"]))
            case "cell_ended":
                iterations[-1][2] = data["output"]
    made = tuple(RecordedIteration(reply, tuple(calls), output) for reply, calls, output in iterations)
    return RecordedRun(run_id, made, usage or Usage())


CELLS = ["found = llm_query('the code?')\nprint(found)", "n = len(found)\nprint(n)", "SUBMIT(answer=n)"]


async def test_a_run_goes_on_where_it_was_and_asks_nobody_again(make):
    first = make(CELLS[:2], sub={"*": "sesame"}, extraction=["null"], trigger=FallbackTrigger(max_iterations=2))
    await first.run(doc="x")
    used = Usage(tokens_in=100, llm_calls=1, seconds=2.0)

    again = make(CELLS[2:], sub={})
    result = await again.driver.run({"doc": "x"}, past=past_of(first.events, usage=used))
    assert isinstance(result, Submitted)
    assert result.outputs.answer == len("sesame")
    assert result.iterations == 3
    assert again.asked("sub") == []
    assert len(again.asked()) == 1
    assert result.usage.llm_calls == 1
    assert result.usage.tokens_in > 100
    assert result.usage.seconds >= 2.0
    started = next(event.data for event in again.events if event.kind == "run_started")
    assert started["resumed_from"] == "before"
    assert not [event for event in again.events if event.kind == "replay_differs"]


async def test_the_model_sees_the_same_conversation_as_if_nothing_had_happened(make):
    whole = make(CELLS, sub={"*": "sesame"})
    await whole.run(doc="x")
    again = make(CELLS[2:], sub={})
    await again.driver.run({"doc": "x"}, past=past_of(whole.events).until(2))

    def said(made):
        texts = [message.text for message in made.asked()[-1].messages]
        return [text.split("\n\n[")[0] for text in texts[1:]]  # without what is left of the budget

    assert said(again) == said(whole)


async def test_a_cell_that_had_not_ended_makes_only_the_calls_that_were_not_answered(make):
    code = "a = llm_query('one')\nb = llm_query('two')\nSUBMIT(answer=len(a) + len(b))"
    answered = RecordedCall("llm_query", json.dumps([["one"], {}]), "1111")
    past = RecordedRun("before", (RecordedIteration(fenced(code), (answered,)),))
    again = make([], sub={"two": "22"})
    result = await again.driver.run({"doc": "x"}, past=past)
    assert isinstance(result, Submitted)
    assert result.outputs.answer == 6
    assert [request.messages[0].text for request in again.asked("sub")] == ["two"]


async def test_a_call_that_was_under_way_when_the_run_was_stopped_is_made_again(make):
    under_way = asyncio.Event()

    async def look(page: int) -> str:
        under_way.set()
        return await asyncio.Future()

    code = "print(look(page=3))"
    first = make([code], tools={"look": look})
    running = asyncio.create_task(first.run(doc="x"))
    await under_way.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [event.kind for event in first.events[-2:]] == ["call_ended", "run_interrupted"]
    assert first.events[-2].error.startswith("Cancelled: ")

    again = make(["SUBMIT(answer=1)"], tools={"look": lambda page: f"page {page}"})
    await again.driver.run({"doc": "x"}, past=past_of(first.events))
    assert "page 3" in again.last_observation()


async def test_a_call_that_was_not_made_before_is_not_made_now_in_a_cell_that_had_ended(make):
    past = RecordedRun("before", (RecordedIteration(fenced("print(llm_query('new'))"), (), "old"),))
    again = make(["SUBMIT(answer=1)"], sub={"*": "live"})
    result = await again.driver.run({"doc": "x"}, past=past)
    assert isinstance(result, Submitted)
    assert again.asked("sub") == []
    assert "NotRecorded" in again.last_observation()


async def test_recorded_errors_are_raised_again_under_their_names(make):
    code = "try:\n    llm_query('x')\nexcept Exception as error:\n    print(type(error).__name__, error)"
    failed = RecordedCall("llm_query", json.dumps([["x"], {}]), None, "ModelError: no such model")
    past = RecordedRun("before", (RecordedIteration(fenced(code), (failed,), "ModelError no such model"),))
    again = make(["SUBMIT(answer=1)"])
    await again.driver.run({"doc": "x"}, past=past)
    assert "ModelError no such model" in again.last_observation()


async def test_code_that_gives_another_output_is_reported(make):
    past = RecordedRun("before", (RecordedIteration(fenced("import time\nprint(time.time())"), (), "1700000000.0"),))
    again = make(["SUBMIT(answer=1)"])
    await again.driver.run({"doc": "x"}, past=past)
    (differs,) = [event.data for event in again.events if event.kind == "replay_differs"]
    assert differs["iteration"] == 1
    assert differs["recorded"] == "1700000000.0"
    assert differs["now"] != differs["recorded"]


async def test_a_run_cut_off_by_its_budget_goes_on_with_a_larger_one(make):
    first = make(CELLS[:1], extraction=['{"answer": 3}'], trigger=FallbackTrigger(max_iterations=1))
    assert isinstance(await first.run(doc="x"), Extracted)
    again = make(["SUBMIT(answer=len(found))"], trigger=FallbackTrigger(max_iterations=5))
    result = await again.driver.run({"doc": "x"}, past=past_of(first.events))
    assert isinstance(result, Submitted)
    assert result.outputs.answer == len("sub answer")


async def test_without_a_larger_one_it_is_extracted_again(make):
    first = make(CELLS[:1], extraction=['{"answer": 3}'], trigger=FallbackTrigger(max_iterations=1))
    await first.run(doc="x")
    again = make([], extraction=['{"answer": 4}'], trigger=FallbackTrigger(max_iterations=1))
    result = await again.driver.run({"doc": "x"}, past=past_of(first.events))
    assert isinstance(result, Extracted)
    assert result.outputs.answer == 4
