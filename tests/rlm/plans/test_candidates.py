"""Comparing plans, and dividing a budget among them."""

from __future__ import annotations

import dataclasses
import math

import pytest

from rlm.budgets import FallbackTrigger, Ledger
from rlm.plans import CandidateSet, Plan, Scores, Weights, compare, similarity
from rlm.plans.candidates import without_duplicates
from rlm.plans.trial import BudgetShares


def test_weights_decide_which_plan_is_best() -> None:
    cheap = Plan("cheap", scores=Scores(cost=0.0, risk=0.8, fit=0.5))
    safe = Plan("safe", scores=Scores(cost=0.9, risk=0.0, fit=0.5))
    fitting = Plan("fitting", scores=Scores(cost=0.9, risk=0.8, fit=1.0))
    plans = [cheap, safe, fitting]
    for weights, best in ((Weights(5, 1, 1), cheap), (Weights(1, 5, 1), safe), (Weights(0, 0, 1), fitting)):
        ranked = compare("loop", 1, plans, weights)
        assert ranked.candidates[0].plan is best
        assert [one.rank for one in ranked.candidates] == [1, 2, 3]


def test_the_score_is_a_weighted_mean_of_what_is_good() -> None:
    assert Weights(1, 1, 2).score(Scores(0.2, 0.4, 0.9)) == pytest.approx((0.8 + 0.6 + 1.8) / 4)
    assert Weights(7, 7, 7).score(Scores(0, 0, 1)) == 1
    same = compare("loop", 1, [Plan("first"), Plan("second")], Weights())
    assert [one.plan.name for one in same.candidates] == ["first", "second"]


@pytest.mark.parametrize("bad", [{"cost": -1}, {"cost": 0, "risk": 0, "fit": 0}, {"fit": math.inf}, {"fit": True}])
def test_weights_that_mean_nothing_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        Weights(**bad)


@pytest.mark.parametrize("bad", [{"cost": 1.1}, {"risk": -0.1}, {"fit": math.nan}, {"fit": "1"}])
def test_predictions_are_between_0_and_1(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Scores(**bad)


def test_similarity_is_of_words_not_of_their_order() -> None:
    assert similarity("Count the words, then add.", "add; then COUNT words") == 1
    assert similarity("count words", "ask a friend") == 0
    assert similarity("...", "...") == 1
    assert 0 < similarity("count all words twice", "count all lines twice") < 0.8


def test_the_same_approach_on_another_model_is_another_plan() -> None:
    plans = [Plan("count words"), Plan("count words", model="strong"), Plan("Count words!", temperature=1.0)]
    kept, dropped = without_duplicates(plans)
    assert kept == plans[:2]
    assert len(dropped) == 1
    kept, dropped = without_duplicates([Plan("count the words")], earlier=[plans[0]])
    assert not kept
    assert "a rejected plan" in dropped[0]


def test_a_set_comes_back_from_its_entry() -> None:
    plan = Plan("x\ny", "name", "strong", 0.5, ("a", "b"), 0.2, Scores(0, 0.5, 1), "model")
    made = compare("loop", 3, [plan, Plan("z")], Weights(1, 2, 3), ["left out"])
    assert CandidateSet.from_dict(made.to_dict()) == made


def test_an_even_part_leaves_something_for_the_rounds_to_come() -> None:
    whole = FallbackTrigger(max_iterations=7, max_llm_calls=12, max_duration=60.0, max_tokens=1200, max_cost_usd=1.2)
    ledger = Ledger(whole, clock=lambda: 0.0)
    part = BudgetShares.of(ledger, plans=3, rounds=2, parallel=1, more_calls=False).of_plan(Plan("x"))
    assert (part.max_llm_calls, part.max_duration, part.max_tokens) == (2, 10.0, 200)
    assert part.max_cost_usd == pytest.approx(0.2)
    assert part.max_iterations == 7  # they are not shared
    ledger.record_usage(600, 0, 0.6)
    later = BudgetShares.of(ledger, plans=1, rounds=1, parallel=1, more_calls=False).of_plan(Plan("x"))
    assert (later.max_tokens, later.max_cost_usd) == (600, 0.6)


def test_a_share_is_of_the_whole_and_a_models_no_more_than_even() -> None:
    ledger = Ledger(FallbackTrigger(max_llm_calls=10, max_duration=math.inf), clock=lambda: 0.0)
    shares = BudgetShares.of(ledger, plans=2, rounds=1, parallel=1, more_calls=False)
    plan = Plan("x", budget_share=0.9)
    assert shares.of_plan(plan).max_llm_calls == 9
    assert shares.of_plan(dataclasses.replace(plan, source="model")).max_llm_calls == 5
    assert shares.of_plan(dataclasses.replace(plan, source="model", budget_share=0.2)).max_llm_calls == 2
    assert shares.of_plan(plan).max_duration == math.inf


def test_plans_that_run_at_once_have_more_time_and_unsure_ones_more_calls() -> None:
    ledger = Ledger(FallbackTrigger(max_llm_calls=8, max_duration=60.0), clock=lambda: 0.0)
    part = BudgetShares.of(ledger, plans=4, rounds=1, parallel=2, more_calls=True).of_plan(Plan("x"))
    assert (part.max_duration, part.max_llm_calls) == (30.0, 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"approach": "  "}, "needs an approach"),
        ({"approach": "x" * 5000}, "at most 4,000"),
        ({"budget_share": 0}, "budget_share"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Plan(**{"approach": "x", **change})  # type: ignore[arg-type]


def test_a_name_is_one_short_line() -> None:
    assert Plan("do this\nand that").name == "do this and that"
    assert Plan("x", name="n\n" * 100).name.endswith("…")
    assert len(Plan("y" * 200).name) == 60
