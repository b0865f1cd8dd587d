"""Random choices that are the same in every process and with every version of Python.

Python guarantees this only for `random()` of a generator that is seeded with text, so all choices use that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A source of random choices that is seeded with a name."""

    def __init__(self, *name: object) -> None:
        self.random = random.Random("/".join(map(str, name))).random

    def below(self, end: int) -> int:
        """Return an integer from 0 to `end - 1`."""
        return int(self.random() * end)

    def between(self, first: int, last: int) -> int:
        """Return an integer from `first` to `last`, both included."""
        return first + int(self.random() * (last - first + 1))

    def chance(self, share: float) -> bool:
        """Return True in this share of cases."""
        return self.random() < share

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self.random() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        shuffled = list(items)
        for last in range(len(shuffled) - 1, 0, -1):
            other = self.below(last + 1)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return so many of the items, each at most once."""
        indices: dict[int, None] = {}
        while len(indices) < count:
            indices[self.below(len(items))] = None
        return [items[index] for index in indices]
