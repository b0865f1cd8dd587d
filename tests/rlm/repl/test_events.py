"""What a run tells those who watch it is enough to know everything that happened."""

from __future__ import annotations

import asyncio
import json

import pytest

from rlm.budgets import FallbackTrigger
from rlm.models import policy
from rlm.models.policy import RequestPolicy
from rlm.models.rate_limit.bucket import Limit
from rlm.results import Failed, Submitted


def of_kind(made, kind):
    return [event.data for event in made.events if event.kind == kind]


async def test_every_prompt_can_be_put_together_from_what_was_told(make):
    made = make(["print(1)", "print(2)", "SUBMIT(answer=1)"])
    await made.run(doc="x")
    turns = []
    for asked, request in zip(of_kind(made, "model_asked"), made.asked(), strict=True):
        turns = turns[: asked["kept"]] + list(asked["turns"])
        assert [text for _, text in turns] == [message.text for message in request.messages]
        assert asked["system"] == request.system
    assert [one["kept"] for one in of_kind(made, "model_asked")] == [0, 1, 3]


async def test_calls_are_told_with_arguments_answers_and_the_questions_they_led_to(make):
    made = make(["print(llm_batch(['a', 'b']))", "SUBMIT(answer=1)"], sub={"*": "yes"})
    await made.run(doc="x")
    started, ended = of_kind(made, "call_started")[0], of_kind(made, "call_ended")[0]
    assert (started["name"], json.loads(started["arguments"])) == ("llm_batch", [[["a", "b"]], {}])
    assert json.loads(ended["answer"]) == ["yes", "yes"]
    asked = [one for one in of_kind(made, "model_asked") if one["role"] == "sub"]
    assert [one["call"] for one in asked] == [started["id"]] * 2
    assert sorted(one["turns"][0][1] for one in asked) == ["a", "b"]


async def test_variables_are_told_as_they_come_change_and_go(make):
    made = make(["a = 1\nb = 2", "a = 10\ndel b\nc = 3", "SUBMIT(answer=1)"])
    await made.run(doc="x")
    second = of_kind(made, "variables")[1]
    assert list(second["added"]) == ["c"]
    assert second["changed"]["a"]["preview"] == "10"
    assert second["removed"] == ["b"]


async def test_an_extraction_attempt_says_what_was_wrong_with_it(make):
    made = make(
        ["x = 4"], extraction=['{"answer": "four"}', '{"answer": 4}'], trigger=FallbackTrigger(max_iterations=1)
    )
    await made.run(doc="x")
    first, second = of_kind(made, "extraction_attempt")
    assert first["problems"][0]["path"] == "/answer"
    assert first["text"] == '{"answer": "four"}'
    assert "Required" in first["prompt"] or "answer" in first["prompt"]
    assert second["problems"] == []


async def test_a_child_run_names_its_parent_and_the_call(make):
    inner, outer = "SUBMIT(n=7)", "SUBMIT(answer=rlm_query('t -> n: int', t='Sub')['n'])"
    made = make({"Sub": f"```python\n{inner}\n```", "*": f"```python\n{outer}\n```"})
    await made.run(doc="x")
    parent, child = of_kind(made, "run_started")
    ids = list(dict.fromkeys(event.run_id for event in made.events))
    assert parent["parent"] is None
    assert (child["parent"], child["depth"]) == (ids[0], 1)
    assert child["parent_call"] == of_kind(made, "call_started")[0]["id"]


async def test_a_model_that_is_too_slow_does_not_outlast_the_run(make):
    class Never:
        supports_response_schema = False
        supported_params = frozenset()

        async def complete(self, request):
            await asyncio.sleep(3600)

        async def aclose(self):
            pass

    import dspy

    made = make(["x = 1"], extraction=['{"answer": 5}'], trigger=FallbackTrigger(max_duration=0.4))
    slow = dspy.LM("slow/main", engine=made.main._engine_spec, async_engine=Never(), cache=False, num_retries=0)
    object.__setattr__(made.driver, "main_model", slow)
    result = await made.run(doc="x")
    assert not isinstance(result, Failed)
    assert "seconds" in str(result.reason) or "time" in str(result.reason).lower()
    assert of_kind(made, "model_failed")[0]["error_kind"] == "out of time"


async def test_an_interrupted_run_says_so(make):
    made = make(["import time\ntime.sleep(60)"])
    running = asyncio.create_task(made.run(doc="x"))
    while not of_kind(made, "cell_started"):
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert made.events[-1].kind == "run_interrupted"


async def test_waiting_for_a_rate_limit_is_an_event_and_no_time_of_the_run(make, tmp_path):
    limits = {"scripted/main": Limit(requests=30)}
    made = make(["print(doc)", "SUBMIT(answer=1)"], trigger=FallbackTrigger(max_duration=1.5))
    with policy.using(RequestPolicy(rate_limit_folder=str(tmp_path / "limits"), limits=limits)):
        result = await made.run(doc="x")
    assert isinstance(result, Submitted)
    waits = [event for event in made.events if event.kind == "model_waiting"]
    assert [(event.model, event.reason, event.role) for event in waits] == [("scripted/main", "rate limit", "main")]
    assert 1 < waits[0].seconds <= 2.1
    assert waits[0].id == of_kind(made, "model_asked")[1]["id"]
