"""What a run did before it was interrupted, or up to where another is to leave it: enough to do it again, unasked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..budgets import Usage


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A host call and what came of it."""

    name: str
    arguments: str
    """The arguments and the keywords, as JSON text: `[[...], {...}]`."""

    answer: Any = None
    error: str | None = None
    """Name and message of the exception: `ValueError: no such page`."""


@dataclass(frozen=True, slots=True)
class PastIteration:
    """One iteration: what the model replied, and what its code got from the host."""

    reply: str
    calls: tuple[RecordedCall, ...] = ()
    output: str | None = None
    """What came of the cell; None where it had not ended."""


@dataclass(frozen=True, slots=True)
class Past:
    """The iterations of a run so far. No model is asked for them again."""

    run_id: str
    iterations: tuple[PastIteration, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """What all of it had used; that counts."""

    answered: Mapping[str, int] = field(default_factory=dict)
    """How often each model has answered in a run with plans, those of its plans and the runs before it included."""

    def until(self, iterations: int) -> Past:
        """Only the first so many iterations. What the others used stays spent."""
        return replace(self, iterations=self.iterations[:iterations])
