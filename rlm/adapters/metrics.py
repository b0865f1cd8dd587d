"""Tier metrics: which tier answered the questions of each signature, on each model, and what it took."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

TIERS = (1, 2, 3)
_LEAST_ANSWERS = 5  # before shares mean anything


@dataclass(slots=True)
class TierCounts:
    """The counters of one signature on one model, or of several together."""

    tier1_success: int = 0
    tier2_success: int = 0
    tier3_success: int = 0
    tier1_failures: int = 0
    tier2_failures: int = 0
    tier3_failures: int = 0
    tier3_skipped: int = 0
    """Questions for which tier 3 has no constraint, such as those for tool calls."""

    unanswered: int = 0
    """Questions that no tier answered."""

    tier1_seconds: float = 0.0
    tier2_seconds: float = 0.0
    tier3_seconds: float = 0.0
    tier1_tokens_in: int = 0
    tier2_tokens_in: int = 0
    tier3_tokens_in: int = 0
    tier1_tokens_out: int = 0
    tier2_tokens_out: int = 0
    tier3_tokens_out: int = 0

    @property
    def answers(self) -> int:
        """The number of questions that a tier answered."""
        return self.tier1_success + self.tier2_success + self.tier3_success

    def add(self, other: TierCounts) -> None:
        """Add the counters of `other`."""
        for counter in fields(self):
            setattr(self, counter.name, getattr(self, counter.name) + getattr(other, counter.name))

    def of(self, tier: int, counter: str) -> Any:
        """Return one counter: `of(3, "failures")`."""
        return getattr(self, f"tier{tier}_{counter}")

    def count(self, tier: int, counter: str, amount: float = 1) -> None:
        """Add to one counter."""
        name = f"tier{tier}_{counter}"
        setattr(self, name, getattr(self, name) + amount)


class TierMetrics(Mapping[str, Any]):
    """Counters by name (`metrics["tier1_success"]`), and the same by signature and by model. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], TierCounts] = {}
        self._start: dict[tuple[str, str], int] = {}

    # Counting ----------------------------------------------------------------------------------------------------

    def record(
        self,
        signature: str,
        model: str,
        tier: int,
        *,
        success: bool,
        seconds: float = 0.0,
        tokens_in: int = 0,
        tokens_out: int = 0,
    ) -> None:
        """Count one try of one tier."""
        with self._lock:
            counts = self._of(signature, model)
            counts.count(tier, "success" if success else "failures")
            counts.count(tier, "seconds", seconds)
            counts.count(tier, "tokens_in", tokens_in)
            counts.count(tier, "tokens_out", tokens_out)

    def record_skip(self, signature: str, model: str) -> None:
        """Count one question for which tier 3 has no constraint."""
        with self._lock:
            self._of(signature, model).tier3_skipped += 1

    def record_unanswered(self, signature: str, model: str) -> None:
        """Count one question that no tier answered."""
        with self._lock:
            self._of(signature, model).unanswered += 1

    def record_start(self, signature: str, model: str, tier: int) -> None:
        """Note the tier with which a signature begins now."""
        with self._lock:
            self._start[signature, model] = tier

    def counts(self, signature: str, model: str) -> TierCounts:
        """Return a copy of the counters of one signature on one model."""
        with self._lock:
            copied = TierCounts()
            copied.add(self._counts.get((signature, model), copied))
            return copied

    def reset(self) -> None:
        """Set all counters to zero."""
        with self._lock:
            self._counts.clear()
            self._start.clear()

    def _of(self, signature: str, model: str) -> TierCounts:
        return self._counts.setdefault((signature, model), TierCounts())

    # Reading -----------------------------------------------------------------------------------------------------

    @property
    def by_signature(self) -> dict[str, dict[str, Any]]:
        """The counters of each signature, over all models, and the tier it begins with (`start_tier`)."""
        return self._grouped(0)

    @property
    def by_model(self) -> dict[str, dict[str, Any]]:
        """The counters of each model, over all signatures."""
        return self._grouped(1)

    def to_dict(self) -> dict[str, Any]:
        """Return all counters as plain JSON values."""
        return {**self._total(), "by_signature": self.by_signature, "by_model": self.by_model}

    def summary(self) -> str:
        """Return a line for each signature, then advice."""
        return summary_of(self.by_signature)

    def __getitem__(self, name: str) -> Any:
        return self._total()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._total())

    def __len__(self) -> int:
        return len(fields(TierCounts))

    def __repr__(self) -> str:
        return f"TierMetrics({self._total()})"

    def _total(self) -> dict[str, Any]:
        total = TierCounts()
        with self._lock:
            for counts in self._counts.values():
                total.add(counts)
        return asdict(total)

    def _grouped(self, part: int) -> dict[str, dict[str, Any]]:
        groups: dict[str, TierCounts] = {}
        starts: dict[str, int] = {}
        with self._lock:
            for key, counts in self._counts.items():
                groups.setdefault(key[part], TierCounts()).add(counts)
            for key, tier in self._start.items():
                starts[key[part]] = max(tier, starts.get(key[part], 1))
        return {name: {**asdict(counts), "start_tier": starts.get(name, 1)} for name, counts in groups.items()}

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"counts": {key: asdict(counts) for key, counts in self._counts.items()}, "start": dict(self._start)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self._counts = {key: TierCounts(**counts) for key, counts in state["counts"].items()}
        self._start = state["start"]


def metrics_of(adapter: Any) -> TierMetrics | None:
    """Return the counters of an adapter; None for an adapter that has no tiers."""
    metrics = getattr(adapter, "metrics", None)
    return metrics if isinstance(metrics, TierMetrics) else None


def summary_of(by_signature: Mapping[str, Mapping[str, Any]]) -> str:
    """Return counters by signature, as `TierMetrics.by_signature` has them, as text."""
    lines, advice = [], []
    for name, counts in by_signature.items():
        answers = sum(counts[f"tier{tier}_success"] for tier in TIERS)
        tried = answers + counts["unanswered"]
        shares = {tier: counts[f"tier{tier}_success"] / tried if tried else 0.0 for tier in TIERS}
        by_tier = ", ".join(f"tier {tier} {shares[tier]:.0%}" for tier in TIERS)
        seconds = sum(counts[f"tier{tier}_seconds"] for tier in TIERS)
        tokens = sum(counts[f"tier{tier}_tokens_{way}"] for tier in TIERS for way in ("in", "out"))
        begins = f", begins at tier {counts['start_tier']}" if counts["start_tier"] > 1 else ""
        lines.append(f"{name}: {answers} of {tried} answered ({by_tier}){begins}; {seconds:.1f} s, {tokens:,} tokens")
        if tried >= _LEAST_ANSWERS:
            advice += _advice(name, shares, counts)
    return "\n".join([*lines, *advice])


def _advice(name: str, shares: Mapping[int, float], counts: Mapping[str, Any]) -> list[str]:
    advice = []
    if shares[3] >= 0.25 and counts["start_tier"] < 3:  # a signature that begins there always ends there
        advice.append(f"tier 3 answered {shares[3]:.0%} of {name}: use a larger model")
    elif shares[2] >= 0.5 and counts["start_tier"] < 2:
        advice.append(f"tier 2 answered {shares[2]:.0%} of {name}: begin there, with OutlinesAdapter(tiers=(2, 3))")
    if counts["unanswered"]:
        advice.append(f"no tier answered {counts['unanswered']} of {name}: raise max_tokens or use a larger model")
    return advice
