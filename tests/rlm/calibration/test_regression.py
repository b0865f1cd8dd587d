"""Isotonic and logistic regression: against their definitions, and against weights that are known."""

from __future__ import annotations

import random
from itertools import chain
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.calibration.calibrator import Isotonic, sigmoid
from rlm.calibration.fit import fit_isotonic, fit_logistic


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40))
def test_isotonic_regression_is_what_it_is_defined_as(points: list[tuple[int, bool]]) -> None:
    scores = sorted({score for score, _ in points})
    groups = [[right for score, right in points if score == one] for one in scores]
    curve = fit_isotonic([score / 10 for score, _ in points], [right for _, right in points])
    for at, score in enumerate(scores):
        # The largest of the smallest means: the textbook's formula for the best rising curve.
        best = max(
            min(fmean([*chain(*groups[low : high + 1])]) for high in range(at, len(scores))) for low in range(at + 1)
        )
        assert curve(score / 10) == pytest.approx(best)


def test_a_curve_is_straight_between_its_points_and_flat_beyond() -> None:
    curve = Isotonic(((0.2, 0.1), (0.6, 0.5)))
    assert [curve(x) for x in (0.0, 0.2, 0.4, 0.6, 1.0)] == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.5])


def test_logistic_regression_finds_the_weights() -> None:
    dice = random.Random(4)
    rows, rights = [], []
    for _ in range(6000):
        row = {"a": float(dice.random() < 0.5), "b": dice.random() * 4, "same": 1.0}
        rows.append(row)
        rights.append(dice.random() < sigmoid(-1 + 2 * row["a"] - 0.5 * row["b"]))
    found = fit_logistic(rows, rights, ["a", "b", "same", "absent"])
    assert (found.intercept, found.weights["a"], found.weights["b"]) == pytest.approx((-1, 2, -0.5), abs=0.2)
    assert set(found.weights) == {"a", "b"}, "what never changes says nothing"
    # At the optimum the mean prediction is the share of right ones: the intercept is not held back.
    assert fmean(map(found, rows)) == pytest.approx(fmean(rights), abs=1e-6)


def test_evidence_that_settles_everything_does_not_run_away() -> None:
    rows = [{"a": 1.0}] * 50 + [{"a": 0.0}] * 50
    found = fit_logistic(rows, [True] * 50 + [False] * 50, ["a"])
    assert 0.9 < found({"a": 1.0}) < 1
    assert 0 < found({}) < 0.1


def test_extreme_odds_do_not_overflow() -> None:
    assert (sigmoid(1e4), sigmoid(-1e4)) == (1.0, 0.0)
