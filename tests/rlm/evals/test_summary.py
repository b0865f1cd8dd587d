"""The numbers of a summary, against hand-made ones and against every possible outcome."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from dataclasses import asdict
from pathlib import Path

import pytest

from rlm.adapters.metrics import TierCounts, summary_of
from rlm.evals.log import read_log
from rlm.evals.summary import clustered_mean, pass_hat_k, sum_tiers, summarize
from rlm.repl.llm import STEP
from tests.support.eval_logs import entry, write


def test_one_try_each_gives_the_usual_standard_error() -> None:
    scores = [0.0, 1.0, 1.0, 0.25, 0.75]
    found = clustered_mean([[one] for one in scores])
    assert found.mean == pytest.approx(0.6)
    assert found.error == pytest.approx(statistics.stdev(scores) / math.sqrt(5))


def test_tries_of_one_sample_are_one_observation() -> None:
    tries = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    means = [statistics.mean(one) for one in tries]
    found = clustered_mean(tries)
    assert found.error == pytest.approx(statistics.stdev(means) / 2)
    naive = statistics.stdev([one for many in tries for one in many]) / math.sqrt(12)
    assert found.error is not None
    assert found.error > 1.3 * naive


def test_one_sample_has_no_standard_error() -> None:
    assert clustered_mean([[1.0, 0.0]]).error is None


def test_pass_k_counts_the_ways_to_draw_k_tries_that_are_all_right() -> None:
    tries = [[True, True, False, True], [False] * 4, [True] * 4]
    for k, found in pass_hat_k(tries, 4).items():
        by_hand = statistics.mean(
            statistics.mean(all(one) for one in itertools.combinations(many, k)) for many in tries
        )
        assert found.mean == pytest.approx(by_hand), k


@pytest.mark.parametrize("chance", [0.2, 0.5, 0.9])
def test_pass_k_is_unbiased(chance: float) -> None:
    for k in (1, 2, 3, 4):
        expected = sum(
            chance ** sum(one) * (1 - chance) ** (4 - sum(one)) * pass_hat_k([one], k)[k].mean
            for one in itertools.product([True, False], repeat=4)
        )
        assert expected == pytest.approx(chance**k)


def test_samples_with_fewer_tries_than_k_are_left_out_of_it() -> None:
    found = pass_hat_k([[True, True], [False]], 2)
    assert found[1].mean == pytest.approx(0.5)
    assert found[2].mean == 1.0


def test_a_summary_has_everything_by_suite_and_length(tmp_path: Path) -> None:
    entries = [
        entry("a", 1.0),
        entry("a", 0.0, epoch=2, ending="Failed", outputs=None, error="model:rate: busy", usage={"tokens_in": 5}),
        entry("b", 0.5, length=64_000, ending="Extracted"),
        entry("c", 0.0, length=64_000, ending="Failed", error="model:context: too long", usage={}),
        entry("d", 1.0, suite="other"),
    ]
    summary = summarize(read_log(write(tmp_path / "log", entries)))
    assert [(one.suite, one.length) for one in summary.groups] == [("made", 4_000), ("made", 64_000), ("other", 4_000)]
    first, second, _ = summary.groups
    assert (first.samples, first.tries, first.score.mean, first.right.mean) == (1, 2, 0.5, 0.5)
    assert first.endings == {"Submitted": 1, "Failed": 1}
    assert (first.passes[1].mean, first.passes[2].mean) == (0.5, 0.0)
    assert (first.cost_usd, first.tokens_in, first.tokens_out) == (0.5, 15, 2)
    assert (second.errors, second.too_long, second.right.mean) == (1, 1, 0.0)
    assert summary.all is not None
    assert (summary.all.samples, summary.all.tries, summary.all.errors, summary.all.seconds) == (4, 5, 2, 10.0)
    assert summary.all.score.mean == pytest.approx(0.5)
    json.dumps(summary.to_dict(), allow_nan=False)


def test_groups_stand_in_the_order_of_the_suites(tmp_path: Path) -> None:
    entries = [entry("b", suite="second"), entry("x", suite="unknown"), entry("a", suite="first")]
    suites = [{"name": name, "path": None} for name in ("first", "second")]
    summary = summarize(read_log(write(tmp_path / "log", entries, suites=suites)))
    assert [one.suite for one in summary.groups] == ["first", "second", "unknown"]


def test_what_was_replaced_counts_in_what_the_log_has_cost(tmp_path: Path) -> None:
    entries = [entry("a", 0.0, error="model:rate: busy"), entry("b"), entry("a", usage={"cost_usd": 0.25})]
    log = read_log(write(tmp_path / "log", entries))
    assert [one.score for one in log.replaced] == [0.0]
    summary = summarize(log)
    assert summary.all is not None
    assert (summary.all.cost_usd, summary.spent_usd) == (0.75, 1.25)


def test_an_empty_log_has_a_summary(tmp_path: Path) -> None:
    summary = summarize(read_log(write(tmp_path / "log", [])))
    assert (summary.all, summary.groups) == (None, ())


def test_tiers_of_runs_are_added_up_and_a_tier_that_is_the_first_is_no_fallback() -> None:
    def counts(one: int, three: int, start: int = 1) -> dict[str, float]:
        return {"tier1_success": 0, "tier1_failures": one, "tier3_success": three, "start_tier": start}

    made = sum_tiers([{"Invoice": counts(2, 2), STEP: counts(0, 4, start=3)}, {"Invoice": counts(1, 1)}, {}])
    assert made["Invoice"] == counts(3, 3)
    assert made[STEP] == counts(0, 4, start=3)
    assert "use a larger model" not in summary_of({STEP: {**asdict(TierCounts(tier3_success=9)), **made[STEP]}})
    assert sum_tiers([{"Invoice": counts(2, 2)}, {"Invoice": counts(0, 2, start=3)}])["Invoice"]["start_tier"] == 3
