"""Whether an improvement is more than chance: whole samples are drawn again and again (paired cluster bootstrap)."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

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
    sums: dict[Hashable, list[float]] = {}
    for sample, old, new in zip(samples, before, after, strict=True):
        total = sums.setdefault(sample, [0.0, 0.0])
        total[0] += new - old
        total[1] += 1
    clusters = list(sums.values())
    draw = random.Random(seed).choices
    means = sorted(_mean(draw(clusters, k=len(clusters))) for _ in range(DRAWS))
    edge = round(DRAWS * (1 - CONFIDENCE) / 2)
    return Difference(_mean(clusters), means[edge], means[-edge - 1])


def _mean(clusters: list[list[float]]) -> float:
    return sum(one for one, _ in clusters) / sum(n for _, n in clusters)
