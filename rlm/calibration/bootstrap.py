"""Whether an improvement is more than chance: whole samples are drawn again and again (paired cluster bootstrap)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..stats import bootstrap, interval

DRAWS = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference, and between what it lies with 95% confidence."""

    mean: float
    low: float
    high: float

    @property
    def improved(self) -> bool:
        """Whether it is below zero beyond chance: less is better."""
        return self.high < 0


def difference(samples: Sequence[Hashable], before: Sequence[float], after: Sequence[float], seed: int) -> Difference:
    """How the mean of `after` differs from that of `before`. Values of one sample are drawn together."""
    clusters: dict[Hashable, list[float]] = {}
    for sample, old, new in zip(samples, before, after, strict=True):
        clusters.setdefault(sample, []).append(new - old)
    totals, sizes = [sum(one) for one in clusters.values()], [len(one) for one in clusters.values()]
    low, high = interval(bootstrap(totals, sizes=sizes, seed=seed, resamples=DRAWS), CONFIDENCE)
    return Difference(sum(totals) / sum(sizes), low, high)
