"""Resampled means against what is known of them."""

from __future__ import annotations

import random
import statistics

import pytest

from rlm.stats import bootstrap, interval, quantile


def test_quantiles_are_those_of_the_standard_library() -> None:
    values = sorted(random.Random(1).gauss(0, 1) for _ in range(41))
    expected = statistics.quantiles(values, n=20, method="inclusive")
    assert [quantile(values, number / 20) for number in range(1, 20)] == pytest.approx(expected)
    assert (quantile(values, 0), quantile(values, 1)) == (values[0], values[-1])


def test_the_interval_is_about_two_standard_errors_wide() -> None:
    dice = random.Random(2)
    values = [dice.gauss(5, 2) for _ in range(200)]
    low, high = interval(bootstrap(values, seed=0, resamples=4_000))
    error = statistics.stdev(values) / len(values) ** 0.5
    assert low == pytest.approx(statistics.fmean(values) - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(statistics.fmean(values) + 1.96 * error, abs=0.15 * error)


def test_values_of_one_cluster_are_drawn_together() -> None:
    dice = random.Random(3)
    values = [dice.gauss(0, 1) for _ in range(50)]
    alone = interval(bootstrap(values, seed=0, resamples=2_000))
    # The same values, each four times: no more is known than before.
    together = interval(bootstrap([4 * one for one in values], sizes=[4] * 50, seed=0, resamples=2_000))
    assert together == pytest.approx(alone)
    assert bootstrap([3.0, 1.0], sizes=[3, 1], seed=1, resamples=3) == [1.0, 1.0, 1.0]


def test_the_same_seed_gives_the_same_means() -> None:
    assert bootstrap([1.0, 2.0, 4.0], seed=7, resamples=20) == bootstrap([1.0, 2.0, 4.0], seed=7, resamples=20)
    assert bootstrap([1.0, 2.0, 4.0], seed=7, resamples=20) != bootstrap([1.0, 2.0, 4.0], seed=8, resamples=20)
