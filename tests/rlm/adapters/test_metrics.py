"""The numbers of the tiers: what they add up to, and what they advise."""

from __future__ import annotations

import json

from rlm.adapters.metrics import TierMetrics


def filled(*tiers: int, name: str = "Invoice", model: str = "m") -> TierMetrics:
    """Metrics of questions that these tiers answered."""
    metrics = TierMetrics()
    for answered in tiers:
        for tier in range(1, answered):
            metrics.record(name, model, tier, success=False, seconds=1.0, tokens_in=10, tokens_out=5)
        metrics.record(name, model, answered, success=True, seconds=1.0, tokens_in=10, tokens_out=5)
    return metrics


def test_the_counters_are_read_by_name() -> None:
    metrics = filled(1, 2, 3)
    seed = ["tier1_success", "tier2_success", "tier3_success", "tier1_failures", "tier2_failures"]
    assert [metrics[name] for name in seed] == [1, 1, 1, 2, 1]
    assert metrics["tier1_seconds"] == 3.0
    assert metrics["tier2_tokens_in"] == 20
    assert {"tier3_failures", "tier3_skipped", "unanswered"} <= set(metrics)
    assert len(metrics) == len(list(metrics))


def test_they_are_apart_by_signature_and_by_model_and_together_in_all() -> None:
    metrics = filled(1, 1)
    metrics.record("Mood", "other", 3, success=True)
    assert metrics["tier1_success"] == 2
    assert metrics.by_signature["Mood"]["tier3_success"] == 1
    assert metrics.by_signature["Invoice"]["tier3_success"] == 0
    assert metrics.by_model["m"]["tier1_success"] == 2


def test_all_of_it_is_plain_json() -> None:
    metrics = filled(1, 3)
    written = json.loads(json.dumps(metrics.to_dict()))
    assert written["tier3_success"] == 1
    assert written["by_signature"]["Invoice"]["tier1_failures"] == 1


def test_a_model_that_needs_tier_3_is_too_small() -> None:
    summary = filled(*[1] * 6, *[3] * 4).summary()
    assert "Invoice: 10 of 10 answered (tier 1 60%, tier 2 0%, tier 3 40%)" in summary
    assert "tier 3 answered 40% of Invoice: use a larger model" in summary


def test_a_model_that_writes_json_can_begin_there() -> None:
    assert "tier 2 answered 80% of Invoice: begin there" in filled(1, 2, 2, 2, 2).summary()


def test_a_few_answers_are_no_reason_for_advice() -> None:
    assert filled(3, 3).summary().count("\n") == 0


def test_what_was_not_answered_is_said() -> None:
    metrics = filled(*[1] * 9)
    metrics.record("Invoice", "m", 3, success=False)
    metrics.record_unanswered("Invoice", "m")
    assert "9 of 10 answered" in metrics.summary()
    assert "no tier answered 1 of Invoice" in metrics.summary()


def test_reset_starts_from_nothing() -> None:
    metrics = filled(1)
    metrics.record_start("Invoice", "m", 2)
    metrics.reset()
    assert metrics["tier1_success"] == 0
    assert metrics.by_signature == {}
