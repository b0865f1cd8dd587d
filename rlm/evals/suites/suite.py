"""`Suite`: a named generator of samples, from a seed alone or from texts in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..sample import Sample
from .corpora import Corpora, CorpusMissing
from .dice import Dice

MIN_LENGTH, MAX_LENGTH = 4_000, 10_000_000


@dataclass(frozen=True, slots=True)
class GeneratedTask:
    """The parts of a sample that a suite generates for a length."""

    instructions: str
    inputs: dict[str, Any]
    expected: dict[str, Any]
    meta: dict[str, Any]
    signature: str | None = None
    scoring: dict[str, str] | None = None
    """The signature and the scoring of this sample, where they differ from those of the suite."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Samples of one kind. The same seed, length and index always generate the same sample (from the same texts)."""

    name: str
    about: str
    """What the suite tests, in one line."""

    signature: str
    scoring: dict[str, str]
    make: Callable[..., GeneratedTask]
    """Generates a task from dice and a length; of a suite with `needs`, also from texts and the index of the sample."""

    needs: str | None = None
    """The texts that it takes its samples from: `questions`, `prose` or `logs`; None for made-up ones."""

    def generate(self, seed: int, length: int, count: int, corpora: Corpora | None = None) -> Iterator[Sample]:
        """Yield so many samples of about `length` characters. Raises `ValueError` for an unsupported length."""
        if not MIN_LENGTH <= length <= MAX_LENGTH:
            raise ValueError(f"suite {self.name}: length {length:,} is not between {MIN_LENGTH:,} and {MAX_LENGTH:,}")
        if self.needs is not None and corpora is None:
            raise CorpusMissing(f"the suite {self.name} is on real texts: give their folder with --texts")
        for index in range(count):
            dice = Dice(self.name, seed, length, index)
            task = self.make(dice, length) if self.needs is None else self.make(dice, length, corpora, index)
            yield Sample(
                self.id_of(seed, length, index),
                self.name,
                length,
                seed,
                task.signature or self.signature,
                task.instructions,
                task.inputs,
                task.expected,
                dict(task.scoring or self.scoring),
                task.meta,
            )

    def id_of(self, seed: int, length: int, index: int) -> str:
        """Return the id of a sample, without generating it."""
        return f"{self.name}-{length}-{seed}-{index}"
