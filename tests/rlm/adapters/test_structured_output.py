"""Tier 3 for models elsewhere: a server on this machine that does, refuses or ignores each way to ask for a schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError, LMServerError
from pydantic import Field

from rlm import OutlinesAdapter
from rlm.adapters import ask_typed, structured_output
from rlm.models.client import ModelError
from tests.support.adapter_models import Cut, bad_request, model
from tests.support.chat_server import USAGE

GOOD = '{"vendor": "ACME", "total": 3.5}'
PROSE = "It is ACME, and 3.50."


class Invoice(dspy.Signature):
    """Read the invoice."""

    text: str = dspy.InputField()
    vendor: str = dspy.OutputField()
    total: float = dspy.OutputField()


def ask(lm: Any, adapter: Any, signature: Any = Invoice) -> Any:
    with dspy.context(lm=lm, adapter=adapter):
        return dspy.Predict(signature)(text="ACME, 3.50")


def ways_used(bodies: list[dict[str, Any]]) -> list[str]:
    names = ("response_format", "structured_outputs", "json_schema")
    return [next((name for name in names if name in body), "words") for body in bodies]


def takes(name: str, *, others: Callable[[dict[str, Any]], tuple[int, Any]]) -> Callable[[Any], tuple[int, Any]]:
    return lambda body: (200, GOOD) if name in body else others(body)


def ignores(body: dict[str, Any]) -> tuple[int, Any]:
    return 200, PROSE


def refuses(body: dict[str, Any]) -> tuple[int, Any]:
    odd = set(body) & {"response_format", "structured_outputs", "json_schema"}
    return bad_request(f"unknown field {odd}") if odd else (200, PROSE)


def test_a_server_that_takes_a_response_format_is_asked_with_one(serve: Any) -> None:
    server = serve(takes("response_format", others=ignores))
    adapter = OutlinesAdapter(tiers=(3,))
    assert ask(server.lm(), adapter).total == 3.5
    (body,) = server.bodies
    assert body["response_format"]["type"] == "json_schema"
    sent = body["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["required"] == ["vendor", "total"]
    assert sent["schema"]["additionalProperties"] is False
    assert adapter.metrics["tier3_success"] == 1


@pytest.mark.parametrize("others", [ignores, refuses])
@pytest.mark.parametrize("way", ["structured_outputs", "json_schema"])
def test_the_way_that_works_is_found_out_once_and_remembered(serve: Any, way: str, others: Any) -> None:
    server = serve(takes(way, others=others))
    lm, adapter = server.lm(), OutlinesAdapter(tiers=(3,))
    assert ask(lm, adapter).vendor == "ACME"
    tried = ways_used(server.bodies)
    assert tried[-1] == way
    assert len(set(tried)) == len(tried)
    assert structured_output.memory.known(lm) == way
    server.bodies.clear()
    assert ask(lm.copy(), adapter).vendor == "ACME"
    assert ways_used(server.bodies) == [way]


def test_what_one_server_can_is_not_believed_of_another(serve: Any) -> None:
    first, second = serve(takes("structured_outputs", others=refuses)), serve(takes("response_format", others=refuses))
    adapter = OutlinesAdapter(tiers=(3,))
    ask(first.lm(), adapter)
    ask(second.lm(), adapter)
    assert ways_used(second.bodies) == ["response_format"]


@pytest.mark.parametrize("others", [ignores, refuses])
def test_where_no_way_works_the_model_is_asked_again_in_words(serve: Any, others: Any) -> None:
    said = iter([PROSE, PROSE, PROSE, GOOD])

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        return others(body) if ways_used([body]) != ["words"] else (200, next(said))

    server = serve(reply)
    lm, adapter = server.lm(), OutlinesAdapter()
    assert ask(lm, adapter).total == 3.5
    assert ways_used(server.bodies)[:2] == ["words", "words"]
    assert ways_used(server.bodies)[-1] == "words"
    assert "was not accepted" in server.bodies[-1]["messages"][-1]["content"]
    assert adapter.metrics["tier3_success"] == 1
    server.bodies.clear()
    said = iter([PROSE, PROSE, GOOD])
    ask(lm, adapter)
    assert ways_used(server.bodies) == ["words"] * 3


def test_a_schema_that_is_refused_does_not_take_the_way_from_others(serve: Any) -> None:
    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        schema = json.dumps(body.get("response_format") or {})
        if "pattern" in schema:
            return bad_request("pattern is not supported")
        if "response_format" in body or ways_used([body]) == ["words"]:
            return 200, GOOD.replace("}", ', "code": "ABC"}') if "code" in json.dumps(body["messages"]) else GOOD
        return refuses(body)

    class Coded(Invoice):
        code: Annotated[str, Field(pattern="[A-Z]{3}")] = dspy.OutputField()

    server = serve(reply)
    lm, adapter = server.lm(), OutlinesAdapter(tiers=(3,), max_attempts=1)
    for _ in range(2):
        assert ask(lm, adapter, Coded).code == "ABC"
    assert ways_used(server.bodies).count("response_format") == 1  # the same schema is not tried again
    assert ask(lm, adapter).total == 3.5
    assert structured_output.memory.known(lm) == "response_format"


def test_a_server_that_refuses_two_schemas_is_not_asked_with_a_third(serve: Any) -> None:
    names = ("one", "two", "three")
    said = iter(f'{{"{name}": 1}}' for name in names)
    server = serve(lambda body: (200, next(said)) if ways_used([body]) == ["words"] else refuses(body))
    lm, adapter = server.lm(), OutlinesAdapter(tiers=(3,), max_attempts=1)
    for name in names:
        assert ask(lm, adapter, f"text -> {name}: int")[name] == 1
    assert ways_used(server.bodies).count("response_format") == 2
    assert structured_output.memory.ways(lm) == []


def test_an_answer_that_only_needs_better_reading_is_not_requested_again(serve: Any) -> None:
    said = iter([PROSE, "{'vendor': 'ACME', 'total': 3.5}"])
    server = serve(lambda body: (200, next(said)))
    assert ask(server.lm(), OutlinesAdapter()).total == 3.5
    assert len(server.bodies) == 2


def test_a_failure_of_the_server_is_not_taken_for_a_refusal(serve: Any) -> None:
    server = serve(lambda body: (500, {"error": {"message": "broken"}}))
    lm = server.lm()
    with pytest.raises(LMServerError):
        ask(lm, OutlinesAdapter(tiers=(3,)))
    assert len(server.bodies) == 1
    assert len(structured_output.memory.ways(lm)) == 3


def test_a_prompt_that_is_too_long_is_not_taken_for_a_refusal(serve: Any) -> None:
    error = {"message": "This model's maximum context length is 8 tokens", "code": "context_length_exceeded"}
    server = serve(lambda body: (400, {"error": {**error, "type": "invalid_request_error"}}))
    with pytest.raises(ContextWindowExceededError):
        ask(server.lm(), OutlinesAdapter(tiers=(3,)))
    assert len(server.bodies) == 1


def test_a_question_that_the_server_refuses_in_every_way_says_nothing_about_the_ways(serve: Any) -> None:
    server = serve(lambda body: bad_request("temperature must be 1"))
    lm = server.lm()
    with pytest.raises(Exception, match="temperature must be 1"):
        ask(lm, OutlinesAdapter(tiers=(3,)))
    assert len(structured_output.memory.ways(lm)) == 3


def test_an_answer_that_was_cut_off_ends_it_and_says_nothing_about_the_way(serve: Any) -> None:
    server = serve(lambda body: (200, Cut('{"vendor": "ACM')))
    lm = server.lm()
    with pytest.raises(AdapterParseError, match=r"cut off|not JSON"):
        ask(lm, OutlinesAdapter(tiers=(3,)))
    assert len(server.bodies) == 1
    assert len(structured_output.memory.ways(lm)) == 3


def test_a_way_that_worked_survives_one_bad_answer(serve: Any) -> None:
    said = iter([GOOD, GOOD, PROSE])
    server = serve(lambda body: (200, next(said, GOOD)))
    lm, adapter = server.lm(), OutlinesAdapter(tiers=(3,))
    for _ in range(3):
        assert ask(lm, adapter).vendor == "ACME"
    assert ways_used(server.bodies) == ["response_format"] * 3 + ["words"]
    assert structured_output.memory.known(lm) == "response_format"


def test_an_open_mapping_is_not_requested_as_strict(serve: Any) -> None:
    signature = dspy.Signature({"text": (str, dspy.InputField()), "counts": (dict[str, int], dspy.OutputField())})
    server = serve(lambda body: (200, '{"counts": {"a": 1}}'))
    assert ask(server.lm(), OutlinesAdapter(tiers=(3,)), signature).counts == {"a": 1}
    assert server.bodies[0]["response_format"]["json_schema"]["strict"] is False


def test_a_single_choice_is_an_object_for_a_server(serve: Any) -> None:
    kind = Literal["good", "bad"]
    signature = dspy.Signature({"text": (str, dspy.InputField()), "mood": (kind, dspy.OutputField())})
    server = serve(lambda body: (200, '{"mood": "bad"}'))
    assert ask(server.lm(), OutlinesAdapter(tiers=(3,)), signature).mood == "bad"
    schema = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["mood"]["enum"] == ["good", "bad"]


def test_an_engine_of_this_process_is_asked_only_for_what_it_says_it_can() -> None:
    lm = model(GOOD)
    assert structured_output.memory.ways(lm) == []
    lm.engine.supports_response_schema = True
    assert [way.name for way in structured_output.memory.ways(lm)] == ["response_format"]
    assert ask(lm, OutlinesAdapter(tiers=(3,))).vendor == "ACME"
    assert lm.engine.requests[0].config.response_format["schema"]["required"] == ["vendor", "total"]


def test_what_the_call_sends_besides_is_passed_on(serve: Any) -> None:
    server = serve(takes("structured_outputs", others=refuses))
    with dspy.context(lm=server.lm(), adapter=OutlinesAdapter(tiers=(3,))):
        dspy.Predict(Invoice, extra_body={"min_p": 0.1})(text="ACME, 3.50")
    assert server.bodies[-1]["min_p"] == 0.1
    assert "json" in server.bodies[-1]["structured_outputs"]


# One typed question ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["response_format", "structured_outputs", "json_schema"])
async def test_a_typed_question_finds_the_way_too(serve: Any, way: str) -> None:
    server = serve(lambda body: (200, '{"answer": 42}') if way in body else refuses(body))
    lm = server.lm()
    answer = await ask_typed(lm, "How many?", int)
    assert (answer.value, answer.tier) == (42, 3)
    server.bodies.clear()
    answer = await ask_typed(lm, "How many?", int)
    used = (USAGE["prompt_tokens"], USAGE["completion_tokens"])
    assert (answer.calls, answer.tokens_in, answer.tokens_out) == (1, *used)
    assert ways_used(server.bodies) == [way]
    schema = json.dumps(server.bodies[0])
    assert '"required": ["answer"]' in schema


async def test_a_typed_question_to_a_server_that_ignores_schemas_is_read_from_its_words(serve: Any) -> None:
    server = serve(lambda body: (200, "Good."))
    lm = server.lm()
    answer = await ask_typed(lm, "How does it sound?", ["good", "bad"])
    assert answer.value == "good"
    assert ways_used(server.bodies) == ["response_format", "structured_outputs", "json_schema"]
    server.bodies.clear()
    answer = await ask_typed(lm, "How does it sound?", ["good", "bad"])
    assert (answer.value, answer.tier, answer.calls) == ("good", 2, 1)
    assert ways_used(server.bodies) == ["words"]


async def test_a_typed_question_that_cannot_be_asked_is_a_model_error(serve: Any) -> None:
    server = serve(lambda body: (401, {"error": {"message": "no such key", "code": "invalid_api_key"}}))
    with pytest.raises(ModelError) as caught:
        await ask_typed(server.lm(), "How many?", int)
    assert caught.value.kind == "key"
    assert len(server.bodies) == 1
