"""Statistics of samples: resampled means and the interval that holds most of them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence


def bootstrap(totals: Sequence[float], *, seed: int, resamples: int, sizes: Sequence[int] | None = None) -> list[float]:
    """Return the means of resamples, in ascending order. The same seed gives the same ones.

    Each total stands for a cluster of `sizes` values that are drawn together; without sizes, for one value.
    """
    choices, count = random.Random(seed).choices, len(totals)
    if sizes is None:
        return sorted(math.fsum(choices(totals, k=count)) / count for _ in range(resamples))
    clusters = list(zip(totals, sizes, strict=True))
    return sorted(_mean(choices(clusters, k=count)) for _ in range(resamples))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share of the ordered values lies below, interpolated between two of them."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interval(ordered: Sequence[float], share: float = 0.95) -> tuple[float, float]:
    """Return the bounds that hold this share of the ordered values, with as many left out on either side."""
    outside = (1 - share) / 2
    return quantile(ordered, outside), quantile(ordered, 1 - outside)


def wilson_interval(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return the bounds of a share that was seen in some trials: Wilson's interval, of 95% by default."""
    if not trials:
        return 0.0, 1.0
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    margin = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return max(0.0, middle - margin), min(1.0, middle + margin)


def _mean(clusters: Sequence[tuple[float, int]]) -> float:
    return math.fsum(total for total, _ in clusters) / sum(size for _, size in clusters)
