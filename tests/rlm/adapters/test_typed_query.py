"""One question, one typed value: with a model that can be held to a type, and with one that cannot."""

from __future__ import annotations

import asyncio
import datetime
import enum
from typing import Annotated, Any, Literal

import dspy
import pytest
from dspy.lm15 import ContextLengthError
from pydantic import BaseModel, Field

from rlm import OutlinesAdapter
from rlm.adapters import TwoStepAdapter, ask_typed, watch_calls
from rlm.adapters.metrics import TierMetrics
from rlm.budgets import BudgetExceeded, FallbackTrigger, Ledger
from rlm.extraction import MaxRetriesExceeded, ParseError
from rlm.models.client import ModelError
from rlm.redaction import MARK, Redactor
from tests.support.adapter_models import ConstrainedLM, Cut, ReplyingServer, model


class Person(BaseModel):
    name: str
    age: int | None = None


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
PHONE = Annotated[str, Field(pattern=r"^\d{3}-\d{4}$")]

CASES: list[tuple[Any, str, Any]] = [
    (int, "42", 42),
    (float, "1.5", 1.5),
    (bool, "true", True),
    (list[int], "[1, 2]", [1, 2]),
    (Person, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
    (list[Person], '[{"name": "Ada", "age": null}]', [Person(name="Ada")]),
    (int | None, "null", None),
    (datetime.date, '"2024-01-31"', datetime.date(2024, 1, 31)),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (["yes", "no"], "no", "no"),
    ([1, 2, 3], "2", 2),
    (Literal["yes", "no"], "yes", "yes"),
    (Size, "2", Size.LARGE),
    (PHONE, "555-1234", "555-1234"),
    (SCHEMA, '{"n": 3}', {"n": 3}),
]


@pytest.mark.parametrize(("kind", "said", "value"), CASES)
async def test_a_constrained_model_answers_with_one_call(kind: Any, said: str, value: Any) -> None:
    lm = ConstrainedLM(said)
    answer = await ask_typed(lm, "Well?", kind)
    assert (answer.value, type(answer.value)) == (value, type(value))
    assert (answer.tier, answer.calls, answer.text) == (3, 1, said)
    assert lm.constraints[0] is not None


@pytest.mark.parametrize(("kind", "said", "value"), CASES)
async def test_any_model_answers_in_words(kind: Any, said: str, value: Any) -> None:
    answer = await ask_typed(model(said), "Well?", kind)
    assert (answer.value, type(answer.value)) == (value, type(value))
    assert (answer.tier, answer.calls) == (2, 1)


async def test_a_model_that_is_constrained_from_the_start_is_not_told_to_be_too_small() -> None:
    adapter = OutlinesAdapter()
    for _ in range(6):
        await ask_typed(ConstrainedLM("42"), "How many?", int, adapter=adapter)
    (counts,) = adapter.metrics.by_signature.values()
    assert (counts["tier3_success"], counts["start_tier"]) == (6, 3)
    assert "larger model" not in adapter.metrics.summary()


async def test_what_to_write_comes_last() -> None:
    lm = model("no")
    await ask_typed(lm, "Is it so?", ["yes", "no"], system="Be brief.")
    assert lm.engine.prompt(0) == "Is it so?\n\nAnswer with exactly one of these, and nothing else: yes; no"
    assert lm.engine.system(0) == "Be brief."


@pytest.mark.parametrize("said", ["Yes", '"yes"', " yes. ", "**yes**", "YES!"])
async def test_a_choice_is_known_in_other_clothes(said: str) -> None:
    assert (await ask_typed(model(said), "Is it so?", ["yes", "no"])).value == "yes"


async def test_plain_text_is_given_as_it_is() -> None:
    answer = await ask_typed(model("Some text."), "Tell me.", str)
    assert (answer.value, answer.tier) == ("Some text.", 1)


async def test_a_wrong_answer_is_requested_again_with_what_is_wrong() -> None:
    lm = model("about forty", "forty-two", "42")
    answer = await ask_typed(lm, "How many?", int)
    assert (answer.value, answer.tier, answer.calls) == (42, 3, 3)
    assert lm.engine.prompt(2).startswith(lm.engine.prompt(1))
    assert "was not accepted" in lm.engine.prompt(1)
    history = [entry["usage"] for entry in lm.history]
    assert answer.tokens_in == sum(usage["prompt_tokens"] for usage in history)
    assert answer.tokens_out == sum(usage["completion_tokens"] for usage in history)


async def test_bounds_are_checked_under_every_constraint() -> None:
    lm = ConstrainedLM('{"n": 0}', '{"n": 3}')
    answer = await ask_typed(lm, "How many?", SCHEMA)
    assert (answer.value, answer.calls) == ({"n": 3}, 2)
    assert None not in lm.constraints


async def test_an_answer_that_was_cut_off_is_no_answer() -> None:
    answer = await ask_typed(ConstrainedLM(Cut("12"), "123"), "How many?", int)
    assert (answer.value, answer.calls) == (123, 2)


async def test_after_the_last_attempt_it_fails_with_everything_that_was_tried() -> None:
    with pytest.raises(MaxRetriesExceeded) as caught:
        await ask_typed(model("a", "b"), "How many?", int, max_attempts=2)
    assert [attempt.raw_output for attempt in caught.value.history] == ["a", "b"]


async def test_a_prompt_that_is_too_long_is_a_model_error_and_not_tried_again() -> None:
    for lm in (ConstrainedLM(ContextLengthError("too long")), model(ContextLengthError("too long"))):
        with pytest.raises(ModelError) as caught:
            await ask_typed(lm, "How many?", int)
        assert caught.value.kind == "context"
        assert len(lm.engine.requests) == 1


@pytest.mark.parametrize("kind", [[], [None], [["a"]]])
async def test_odd_choices_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="choices are"):
        await ask_typed(model("x"), "?", kind)


async def test_a_type_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(TypeError, match="no type that JSON can carry"):
        await ask_typed(model("x"), "?", threading_lock())


def threading_lock() -> Any:
    import threading

    return type(threading.Lock())


async def test_options_are_for_the_model() -> None:
    lm = model("42")
    await ask_typed(lm, "How many?", int, temperature=0.2, max_tokens=9)
    config = lm.engine.requests[0].config
    assert (config.temperature, config.max_tokens) == (0.2, 9)


async def test_many_at_once_do_not_mix() -> None:
    class Echo(ConstrainedLM):
        pass

    lms = [Echo(str(number)) for number in range(50)]
    answers = await asyncio.gather(*(ask_typed(lm, "?", int) for lm in lms))
    assert [answer.value for answer in answers] == list(range(50))
    assert {answer.calls for answer in answers} == {1}


# Through adapters --------------------------------------------------------------------------------------------------


async def test_the_tiers_of_an_outlines_adapter_are_counted() -> None:
    adapter = OutlinesAdapter()
    await ask_typed(ConstrainedLM("42"), "How many?", int, adapter=adapter)
    await ask_typed(model("42"), "How many?", int, adapter=adapter)
    with pytest.raises(MaxRetriesExceeded):
        await ask_typed(model("a"), "How many?", int, adapter=adapter, max_attempts=1)
    counts = adapter.metrics.by_signature["llm_query: int"]
    assert (counts["tier3_success"], counts["tier2_success"], counts["tier2_failures"]) == (1, 1, 1)
    assert (counts["tier3_failures"], counts["unanswered"]) == (0, 1)


async def test_each_try_is_counted_in_its_own_tier_with_what_it_used() -> None:
    adapter = OutlinesAdapter()
    await ask_typed(model("many", "42"), "How many?", int, adapter=adapter)
    counts = adapter.metrics.by_signature["llm_query: int"]
    assert (counts["tier2_failures"], counts["tier3_success"], counts["unanswered"]) == (1, 1, 0)
    assert 0 < counts["tier2_tokens_in"] < counts["tier3_tokens_in"]  # what was refused is told


async def test_an_answer_that_another_adapter_cannot_read_counts_against_tier_1() -> None:
    counts = TierMetrics()
    with pytest.raises(ParseError):
        await ask_typed(model("many"), "How many?", int, adapter=dspy.JSONAdapter(), counts=counts)
    assert (counts["tier1_failures"], counts["tier3_failures"], counts["unanswered"]) == (1, 0, 1)


async def test_bounds_hold_whichever_adapter_asks() -> None:
    kind = Annotated[int, Field(ge=0)]
    with pytest.raises(ParseError, match="greater than or equal to 0"):
        await ask_typed(model('{"answer": -5}'), "How many?", kind, adapter=dspy.JSONAdapter())


async def test_another_adapter_asks_its_own_way() -> None:
    lm = model('{"answer": "no"}')
    answer = await ask_typed(lm, "Is it so?", ["yes", "no"], adapter=dspy.JSONAdapter(), system="Be brief.")
    assert (answer.value, answer.tier, answer.calls) == ("no", 1, 1)
    assert "Be brief." in lm.engine.system(0)


async def test_what_another_adapter_cannot_read_is_a_parse_error() -> None:
    with pytest.raises(ParseError):
        await ask_typed(model("hm"), "Is it so?", ["yes", "no"], adapter=dspy.JSONAdapter())


async def test_another_adapters_model_errors_are_model_errors() -> None:
    with pytest.raises(ModelError) as caught:
        await ask_typed(model(ContextLengthError("too long")), "?", int, adapter=dspy.JSONAdapter())
    assert caught.value.kind == "context"


async def test_two_steps_work_for_a_typed_question() -> None:
    main, small = model("There are forty-two of them."), model('{"answer": 42}')
    answer = await ask_typed(main, "How many?", int, adapter=TwoStepAdapter(small))
    assert (answer.value, answer.calls) == (42, 2)


# Budgets -----------------------------------------------------------------------------------------------------------


async def test_every_call_is_reported_once_with_its_step() -> None:
    told = []
    with watch_calls(told.append):
        await ask_typed(model("hm", "42", name="scripted/sub"), "How many?", int, system="Be brief.")
    assert [(call.step, call.model, call.text) for call in told] == [
        ("tier2", "scripted/sub", "hm"),
        ("retry", "scripted/sub", "42"),
    ]
    assert [message["role"] for message in told[0].messages] == ["system", "user"]


async def test_a_ledger_counts_retries_and_refuses_the_one_too_many() -> None:
    ledger = Ledger(FallbackTrigger(max_llm_calls=2))
    lm = model("hm", "hm", "42")
    counting = watch_calls(
        lambda call: ledger.record_usage(call.tokens_in, call.tokens_out, call.cost_usd),
        before=lambda step, lm: ledger.reserve_call(),
    )
    with counting, pytest.raises(BudgetExceeded):
        await ask_typed(lm, "How many?", int)
    assert len(lm.engine.requests) == 2
    assert ledger.usage().llm_calls == ledger.usage().model_calls == 2
    assert ledger.usage().tokens_in > 0


async def test_a_key_given_to_a_model_is_redacted_wherever_an_adapter_asks_it() -> None:
    constrained = ConstrainedLM("42")
    constrained.kwargs["api_key"] = "literal-key-1-of-an-adapter"
    await ask_typed(constrained, "How many?", int, adapter=OutlinesAdapter(tiers=(3,)))
    with ReplyingServer(lambda body: (200, '{"answer": 42}')) as server:
        other = server.lm().copy(api_key="literal-key-2-of-an-adapter")
        await ask_typed(other, "How many?", int, adapter=dspy.JSONAdapter())
    redactor = Redactor({})
    for number in (1, 2):
        assert redactor.text(f"key: literal-key-{number}-of-an-adapter.") == f"key: {MARK}."
