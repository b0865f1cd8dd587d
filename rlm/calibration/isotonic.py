"""Isotonic regression: the best curve that only rises, by pooling neighbours that are out of order."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A curve through points, straight between them and flat beyond."""

    points: tuple[tuple[float, float], ...]
    """From a score to a probability, both rising."""

    def __call__(self, score: float) -> float:
        """The probability for a score."""
        after = bisect.bisect_left([x for x, _ in self.points], score)
        if after == len(self.points):
            return self.points[-1][1]
        x, y = self.points[after]
        if after == 0 or x == score:
            return y
        left, low = self.points[after - 1]
        return low + (y - low) * (score - left) / (x - left)


def fit(scores: Sequence[float], rights: Sequence[bool]) -> Isotonic:
    """The rising curve with the least squared error."""
    sums: dict[float, list[int]] = {}
    for score, right in zip(scores, rights, strict=True):
        counts = sums.setdefault(score, [0, 0])
        counts[0] += 1
        counts[1] += right
    pools: list[tuple[list[float], int, int]] = []
    for score, (n, good) in sorted(sums.items()):
        members = [score]
        while pools and pools[-1][2] * n >= good * pools[-1][1]:
            before, more, better = pools.pop()
            members, n, good = [*before, *members], n + more, good + better
        pools.append((members, n, good))
    return Isotonic(tuple((score, good / n) for members, n, good in pools for score in _ends(members)))


def _ends(members: list[float]) -> list[float]:
    """Between the ends of a pool the curve is flat."""
    return members[:1] if len(members) == 1 else [members[0], members[-1]]
