"""The recorded iterations of an earlier run, replayed without calling any model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..budgets import Usage
from ..mounts.hashing import FileRecord


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A host call with its answer or error."""

    name: str
    arguments: str
    """The arguments and the keywords, as JSON text: `[[...], {...}]`."""

    answer: Any = None
    error: str | None = None
    """Name and message of the exception: `ValueError: no such page`."""

    stopped: bool = False
    """Whether the call ended its cell, as an accepted SUBMIT does."""


@dataclass(frozen=True, slots=True)
class RecordedIteration:
    """One iteration: the reply of the model, and the host calls of its cell with their answers."""

    reply: str
    calls: tuple[RecordedCall, ...] = ()
    output: str | None = None
    """The output of the cell; None where it had not ended."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The iterations of a run so far. No model is asked for them again."""

    run_id: str
    iterations: tuple[RecordedIteration, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """What the earlier run had used; it counts."""

    answered: Mapping[str, int] = field(default_factory=dict)
    """How often each model has answered in a run with plans, its plans and the runs before it included."""

    files: Mapping[str, FileRecord] = field(default_factory=dict)
    """What the files among its inputs were, by place."""

    map_answers: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    """The answers of maps that have not ended, by digest and index."""

    def until(self, iterations: int) -> RecordedRun:
        """Return the first iterations only. What the others used stays spent."""
        return replace(self, iterations=self.iterations[:iterations])
