"""The measures, against what can be computed by hand or by brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.calibration.metrics import auroc, bins, brier, ece, measure, risk_at, risk_coverage

SCORED = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.35, 0.5, 0.8, 1.0]), st.booleans()), min_size=1, max_size=40)


def test_brier_and_ece_by_hand() -> None:
    scores, rights = [0.9, 0.9, 0.9, 0.9, 0.3, 0.3], [True, True, True, False, False, True]
    assert brier(scores, rights) == pytest.approx((3 * 0.01 + 0.81 + 0.09 + 0.49) / 6)
    assert ece(scores, rights) == pytest.approx((4 * 0.15 + 2 * 0.2) / 6)


def test_a_certain_score_is_in_the_last_bin() -> None:
    found = bins([1.0, 0.95], [True, False])
    assert found[-1] is not None
    assert (found[-1].n, found[-1].correct, found[:-1]) == (2, 0.5, [None] * 9)


@given(SCORED)
def test_auroc_is_the_share_of_pairs_in_order(scored: list[tuple[float, bool]]) -> None:
    good = [score for score, right in scored if right]
    bad = [score for score, right in scored if not right]
    found = auroc([score for score, _ in scored], [right for _, right in scored])
    if not good or not bad:
        assert found is None
        return
    pairs = [1.0 if g > b else 0.5 if g == b else 0.0 for g, b in itertools.product(good, bad)]
    assert found == pytest.approx(sum(pairs) / len(pairs))


@given(SCORED)
def test_risk_at_full_coverage_is_the_error(scored: list[tuple[float, bool]]) -> None:
    scores, rights = [score for score, _ in scored], [right for _, right in scored]
    curve = risk_coverage(scores, rights)
    assert [share for share, _ in curve] == pytest.approx([(at + 1) / len(scored) for at in range(len(scored))])
    assert risk_at(curve, 1.0) == pytest.approx(rights.count(False) / len(rights))


def test_ties_share_their_errors() -> None:
    curve = risk_coverage([0.9, 0.5, 0.5, 0.5, 0.5], [True, False, True, True, True])
    assert [risk for _, risk in curve] == pytest.approx([0, 0.125, 0.5 / 3, 0.1875, 0.2])
    assert risk_at(curve, 0.2) == 0


def test_all_at_once() -> None:
    found = measure([0.8, 0.6], [True, False])
    assert (found.n, found.right, found.auroc, found.aurc) == (2, 0.5, 1.0, 0.25)
    with pytest.raises(ValueError, match="nothing to measure"):
        measure([], [])
