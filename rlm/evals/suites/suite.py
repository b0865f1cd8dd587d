"""`Suite`: a named generator of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..sample import Sample
from .dice import Dice

MIN_LENGTH, MAX_LENGTH = 4_000, 10_000_000


@dataclass(frozen=True, slots=True)
class GeneratedTask:
    """The parts of a sample that a suite generates for a length."""

    instructions: str
    inputs: dict[str, Any]
    expected: dict[str, Any]
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Suite:
    """Samples of one kind. The same seed, length and index always generate the same sample."""

    name: str
    about: str
    """What the suite tests, in one line."""

    signature: str
    scoring: dict[str, str]
    make: Callable[[Dice, int], GeneratedTask]

    def generate(self, seed: int, length: int, count: int) -> Iterator[Sample]:
        """Yield so many samples of about `length` characters. Raises `ValueError` for an unsupported length."""
        if not MIN_LENGTH <= length <= MAX_LENGTH:
            raise ValueError(f"suite {self.name}: length {length:,} is not between {MIN_LENGTH:,} and {MAX_LENGTH:,}")
        for index in range(count):
            task = self.make(Dice(self.name, seed, length, index), length)
            yield Sample(
                self.id_of(seed, length, index),
                self.name,
                length,
                seed,
                self.signature,
                task.instructions,
                task.inputs,
                task.expected,
                dict(self.scoring),
                task.meta,
            )

    def id_of(self, seed: int, length: int, index: int) -> str:
        """Return the id of a sample, without generating it."""
        return f"{self.name}-{length}-{seed}-{index}"
