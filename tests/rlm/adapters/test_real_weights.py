"""The adapters with real weights: the embedded model, in MLX on this machine's processor.

A model of 135 million parameters is seldom right. What is tested is what holds for any model: the answers have their
types, the tiers are counted, the prompts of the tiers share their beginning.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal

import dspy
import pytest
from pydantic import BaseModel, Field

from rlm import OutlinesAdapter, TwoStepAdapter
from rlm.adapters import ask_typed
from tests.support.adapter_models import model
from tests.support.installed import needs

pytestmark = [pytest.mark.weights, needs("mlx_lm", "outlines")]


class Mood(dspy.Signature):
    """Is the review good or bad?"""

    review: str = dspy.InputField()
    mood: Literal["good", "bad"] = dspy.OutputField()


class Person(BaseModel):
    name: Annotated[str, Field(max_length=20)]
    age: int = Field(ge=0, le=120)


@pytest.fixture(scope="module")
def lm() -> Any:
    from rlm.models import OutlinesLM

    return OutlinesLM(backend="mlx", max_tokens=80)


def test_a_small_model_begins_with_the_constraint(lm: Any) -> None:
    adapter = OutlinesAdapter()
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.Predict(Mood)(review="I loved it.")
    assert answer.mood in ("good", "bad")
    assert adapter.metrics["tier3_success"] == 1
    assert adapter.metrics["tier1_failures"] == adapter.metrics["tier2_failures"] == 0
    assert "begins at tier 3" in adapter.metrics.summary()
    assert "use a larger model" not in adapter.metrics.summary()


def test_the_tiers_end_in_a_typed_answer_and_share_their_prompt(lm: Any) -> None:
    adapter = OutlinesAdapter(tiers=(1, 2, 3))
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.Predict(Mood, max_tokens=12)(review="I loved it.")
    assert answer.mood in ("good", "bad")
    tried = [adapter.metrics[f"tier{tier}_success"] + adapter.metrics[f"tier{tier}_failures"] for tier in (1, 2, 3)]
    answered = [adapter.metrics[f"tier{tier}_success"] for tier in (1, 2, 3)]
    assert sum(answered) == 1
    assert tried[: answered.index(1) + 1] == [1] * (answered.index(1) + 1)
    for later in lm.history[-sum(tried) :][1:]:
        usage = later["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2


def test_chain_of_thought_is_constrained_together_as_one_answer(lm: Any) -> None:
    adapter = OutlinesAdapter(tiers=(3,))
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.ChainOfThought(Mood)(review="I loved it.")
    assert answer.mood in ("good", "bad")
    assert isinstance(answer.reasoning, str)
    assert adapter.metrics["tier3_success"] == 1
    assert adapter.metrics["tier3_tokens_out"] > 5


async def test_typed_questions_are_answered_with_their_types(lm: Any) -> None:
    chosen = await ask_typed(lm, "Review: I loved it.", ["good", "bad"])
    assert chosen.value in ("good", "bad")
    assert (chosen.tier, chosen.calls) == (3, 1)
    person = await ask_typed(lm, "Ada is 36 years old.", Person)
    assert isinstance(person.value, Person)
    assert person.calls == 1
    phone = Annotated[str, Field(pattern=r"^\d{3}-\d{4}$")]
    assert len((await ask_typed(lm, "Call 555-1234.", phone)).value) == 8


def test_it_extracts_for_another_models_words(lm: Any) -> None:
    main = model("I would say that they liked it, so it is a good one.")
    adapter = TwoStepAdapter(lm, extraction_adapter=OutlinesAdapter(tiers=(3,)))
    with dspy.context(lm=main, adapter=adapter):
        answer = dspy.Predict(Mood)(review="I loved it.")
    assert answer.mood in ("good", "bad")
    assert len(main.engine.requests) == 1


def test_the_speed_of_each_tier_can_be_measured_by_itself(lm: Any) -> None:
    measured = {}
    for tier in (1, 2, 3):
        adapter = OutlinesAdapter(tiers=(tier,))
        with dspy.context(lm=lm, adapter=adapter), contextlib.suppress(dspy.AdapterParseError):
            dspy.Predict(Mood, max_tokens=12)(review="I loved it.")
        measured[tier] = adapter.metrics.to_dict()
    for tier, counted in measured.items():
        others = [one for one in (1, 2, 3) if one != tier]
        assert counted[f"tier{tier}_success"] + counted[f"tier{tier}_failures"] == 1
        assert counted[f"tier{tier}_seconds"] > 0
        assert 0 < counted[f"tier{tier}_tokens_out"] <= 12
        assert [counted[f"tier{one}_seconds"] for one in others] == [0, 0]
    assert measured[3]["tier3_success"] == 1


def test_json_that_fails_ends_in_a_constrained_answer(lm: Any) -> None:
    """Six tokens are too few for markers or JSON, and enough for the word alone."""
    adapter = OutlinesAdapter(tiers=(1, 2, 3))
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.Predict(Mood, max_tokens=6)(review="The handle broke off.")
    assert answer.mood in ("good", "bad")
    counted = {name: n for name, n in adapter.metrics.items() if name.endswith(("success", "failures")) and n}
    assert counted == {"tier1_failures": 1, "tier2_failures": 1, "tier3_success": 1}
