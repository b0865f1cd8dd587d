"""What a worker was given and has not told the end of, as an engine keeps it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from ..item import Item
from ..outcome import Outcome, lost


class Held:
    """The items of one worker, in the order in which they were given, and since when their leases run.

    A worker begins them in this order, `at_once` at a time (see `Running`): who has the turn is known here without
    being told. The lease of an item that waits for its turn does not run.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._items: dict[str, tuple[Item, float]] = {}

    def __len__(self) -> int:
        return len(self._items)

    @property
    def alone(self) -> bool:
        """Whether there is an item that is to have its worker for itself."""
        return any(item.alone for item, _ in self._items.values())

    def give(self, item: Item) -> None:
        """The worker has one more."""
        self._items[item.key] = (item, time.monotonic())

    def take_back(self, key: str) -> None:
        """The worker has an item no more; the first of those that wait has its turn."""
        if self._items.pop(key, None) is not None:
            for item, _ in islice(self._items.values(), self._at_once - 1, self._at_once):
                self.renew(item.key)

    def renew(self, key: str, ago: float = 0.0) -> None:
        """Let the lease of an item begin anew, as of some seconds ago."""
        if key in self._items:
            self._items[key] = (self._items[key][0], time.monotonic() - ago)

    def overdue(self) -> Item | None:
        """An item that was not done in its lease."""
        now = time.monotonic()
        return next((item for item, since in self._begun() if now > since + item.lease), None)

    def next_deadline(self) -> float | None:
        """When the first lease ends."""
        return min((since + item.lease for item, since in self._begun()), default=None)

    def lose(self, worker: str, why: str) -> Iterator[Outcome]:
        """All of them, lost with their worker."""
        now = time.monotonic()
        for item, since in self._items.values():
            error = f"its worker {worker} was lost: {why}"
            yield lost(item.key, item.name, error, worker=worker, seconds=now - since)

    def _begun(self) -> Iterator[tuple[Item, float]]:
        return islice(self._items.values(), self._at_once)
