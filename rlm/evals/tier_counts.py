"""Which tier answered the typed questions of runs, as their events tell it, and of many runs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..events import Event, TiersUsed

Tiers = Mapping[str, Mapping[str, float]]
"""Counters by signature: see `rlm.adapters.metrics.TierMetrics.by_signature`."""

_START = "start_tier"


class TierWatch:
    """An observer: the tiers of a run and of its child runs together."""

    def __init__(self) -> None:
        self._told: list[Tiers] = []

    def __call__(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, TiersUsed):
            self._told.append(event.by_signature)

    @property
    def by_signature(self) -> dict[str, dict[str, float]]:
        """The counters so far."""
        return together(self._told)


def together(several: Iterable[Tiers]) -> dict[str, dict[str, float]]:
    """Counters of several runs, added up; a signature begins where it began last in any of them."""
    made: dict[str, dict[str, float]] = {}
    for one in several:
        for name, counts in one.items():
            sums = made.setdefault(name, {})
            for what, number in counts.items():
                sums[what] = max(sums.get(what, 1), number) if what == _START else sums.get(what, 0) + number
    return made
