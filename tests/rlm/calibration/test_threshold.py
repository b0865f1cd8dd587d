"""The rule: a threshold that keeps the error, with a bound that holds."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.calibration.threshold import CONFIDENCE, NoThreshold, Rule, upper_bound


def test_the_bound_with_no_wrong_answer_is_known_in_closed_form() -> None:
    assert upper_bound(0, 29, 0.05) == pytest.approx(1 - 0.05 ** (1 / 29))
    assert upper_bound(7, 7, 0.05) == 1.0


@given(st.integers(1, 200), st.data())
def test_the_bound_is_where_so_few_are_that_unlikely(n: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, n - 1))
    bound = upper_bound(wrong, n, 0.05)
    few = math.fsum(math.comb(n, k) * bound**k * (1 - bound) ** (n - k) for k in range(wrong + 1))
    assert few == pytest.approx(0.05, rel=1e-6)


def test_the_lowest_threshold_that_keeps_the_error_is_taken() -> None:
    held_out = [(0.9 + at / 10000, True) for at in range(300)] + [(0.3 + at / 10000, False) for at in range(300)]
    rule = Rule.choose(0.1, held_out)
    assert 0.3 < rule.threshold < 0.95
    assert rule.seen <= rule.bound <= 0.1
    assert rule.coverage >= 0.45
    assert rule.refuses(rule.threshold) is None
    assert (
        rule.refuses(0.31)
        == f"the confidence in the answer is 0.31, and an error of at most 10% needs {rule.threshold:.2f}"
    )


def test_there_is_no_rule_where_nothing_shows_it() -> None:
    with pytest.raises(NoThreshold, match="has 20 held-out answers; to tell that an error is at most 10%, at least 51"):
        Rule.choose(0.1, [(0.9, True)] * 20)
    half = [(at / 400, at % 2 == 0) for at in range(400)]
    with pytest.raises(
        NoThreshold, match=r"no threshold of this calibrator keeps the error at 10% .* Allow more error"
    ):
        Rule.choose(0.1, half)
    for bad in (0, 1, -0.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Rule.choose(bad, half)


def test_the_promise_is_kept_as_often_as_it_says() -> None:
    """Many calibrators, each with its rule: the true error above the threshold is within the limit for 95% of them."""
    broken = made = 0
    for seed in range(200):
        dice = random.Random(seed)
        held_out = [(p, dice.random() < p) for p in (dice.random() for _ in range(400))]
        try:
            rule = Rule.choose(0.2, held_out)
        except NoThreshold:
            continue
        made += 1
        broken += (1 - rule.threshold) / 2 > 0.2  # the mean of 1 - p above the threshold
    assert made > 100
    assert broken / made <= 1 - CONFIDENCE
