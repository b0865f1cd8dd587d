"""Randomness that is the same in every process and on every version of Python.

Only `random()` of a generator seeded with text is promised to stay the same, so everything is made of that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Random choices that follow from a name."""

    def __init__(self, *name: object) -> None:
        self.random = random.Random("/".join(map(str, name))).random

    def below(self, end: int) -> int:
        """A whole number from 0 to `end - 1`."""
        return int(self.random() * end)

    def between(self, first: int, last: int) -> int:
        """A whole number from `first` to `last`, both included."""
        return first + int(self.random() * (last - first + 1))

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return self.random() < share

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.random() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        made = list(items)
        for last in range(len(made) - 1, 0, -1):
            other = self.below(last + 1)
            made[last], made[other] = made[other], made[last]
        return made

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """That many of the items, each at most once."""
        taken: dict[int, None] = {}
        while len(taken) < count:
            taken[self.below(len(items))] = None
        return [items[index] for index in taken]
