"""Suite: a generator of samples with a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..sample import Sample
from .dice import Dice

SHORTEST, LONGEST = 4_000, 10_000_000


@dataclass(frozen=True, slots=True)
class Made:
    """What a generator makes of a text's length; `Suite` adds what all samples have."""

    instructions: str
    inputs: dict[str, Any]
    expected: dict[str, Any]
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Suite:
    """Samples of one kind, made from a seed: the same seed, length and index always make the same sample."""

    name: str
    about: str
    """One line: what it tests."""

    signature: str
    scoring: dict[str, str]
    make: Callable[[Dice, int], Made]

    def generate(self, seed: int, length: int, count: int) -> Iterator[Sample]:
        """That many samples of about `length` characters. Raises `ValueError` for a length that cannot be made."""
        if not SHORTEST <= length <= LONGEST:
            raise ValueError(f"suite {self.name}: length {length:,} is not between {SHORTEST:,} and {LONGEST:,}")
        for index in range(count):
            made = self.make(Dice(self.name, seed, length, index), length)
            yield Sample(
                self.id_of(seed, length, index),
                self.name,
                length,
                seed,
                self.signature,
                made.instructions,
                made.inputs,
                made.expected,
                dict(self.scoring),
                made.meta,
            )

    def id_of(self, seed: int, length: int, index: int) -> str:
        """The id of a sample, without making it."""
        return f"{self.name}-{length}-{seed}-{index}"
