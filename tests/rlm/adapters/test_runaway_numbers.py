"""A number whose digits ran away is no answer, on any path: chat, JSON, constrained, by the server, in two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from rlm import OutlinesAdapter, TwoStepAdapter
from rlm.adapters import TwoStepError, ask_typed
from rlm.extraction import MaxRetriesExceeded
from tests.support.adapter_models import ConstrainedLM, Engine, model

RUNAWAY = "1114634454" + ("123" * 25)[:73]
JSON = f'{{"answer": {RUNAWAY}}}'
CHAT = f"[[ ## answer ## ]]\n{RUNAWAY}\n\n[[ ## completed ## ]]"


def ask(lm: Any, adapter: Any) -> Any:
    with dspy.context(lm=lm, adapter=adapter):
        return dspy.Predict("question -> answer: int")(question="How many?")


@pytest.mark.parametrize(
    ("lm", "tier"),
    [
        (lambda: model(CHAT), 1),
        (lambda: model(JSON), 2),
        (lambda: ConstrainedLM(JSON), 3),
        (lambda: model(*[JSON] * 3), 3),
    ],
    ids=["chat", "json", "constrained", "retried"],
)
def test_no_tier_of_the_adapter_returns_one(lm: Callable[[], Any], tier: int) -> None:
    with pytest.raises(AdapterParseError, match="digits"):
        ask(lm(), OutlinesAdapter(tiers=(tier,)))


def test_the_next_tier_answers() -> None:
    adapter = OutlinesAdapter()
    assert ask(model(CHAT, '{"answer": 7}'), adapter).answer == 7
    assert (adapter.metrics["tier1_failures"], adapter.metrics["tier2_success"]) == (1, 1)


@pytest.mark.parametrize("make", [model, ConstrainedLM])
async def test_a_typed_question_is_asked_again(make: Any) -> None:
    assert (await ask_typed(make(RUNAWAY, "7"), "How many?", int)).value == 7
    with pytest.raises(MaxRetriesExceeded):
        await ask_typed(make(*[RUNAWAY] * 4), "How many?", int)


async def test_structured_output_of_a_server_is_checked() -> None:
    engine: type[Engine] = type("Structured", (Engine,), {"supports_response_schema": True})
    lm = model(JSON, "7")
    lm.engine.__class__ = engine
    assert (await ask_typed(lm, "How many?", int)).value == 7


def test_the_second_step_returns_none() -> None:
    with pytest.raises(TwoStepError, match="83 digits"):
        ask(model("Many."), TwoStepAdapter(model(*[JSON] * 4)))
