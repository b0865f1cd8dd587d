"""What a trace says about a run, as plain values: its events, iterations, calls, prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event. Its long texts are references to bodies: `RunRecord.filled` puts them in."""

    sequence: int
    parent: int | None
    """The event that this one happened under: a call under its cell, an answer under its question."""

    kind: str
    time: float
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallOnRecord:
    """One call from a cell to the host."""

    id: int
    name: str
    iteration: int | None
    arguments: str
    """The arguments and keywords as JSON text."""

    answer: str | None
    """The answer as JSON text; None where there was none."""

    error: str | None
    seconds: float | None
    """How long it took; None where it had not ended."""

    started: float
    sequence: int

    @property
    def ended(self) -> bool:
        """Whether the call came to an end."""
        return self.seconds is not None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One question to a model. `RunRecord.prompts` has the whole text of it."""

    id: int
    role: str
    iteration: int | None
    call: int | None
    model: str
    started: float
    sequence: int
    seconds: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    truncated: bool = False
    error: str | None = None
    past: bool = False
    """Whether the answer came from the record of an earlier run."""

    cached: bool = False
    """Whether the answer was on disk, and cost nothing."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model was asked, whole, and what it replied."""

    id: int
    role: str
    iteration: int | None
    model: str
    system: str | None
    turns: tuple[tuple[str, str], ...]
    reply: str | None


@dataclass(frozen=True, slots=True)
class Variables:
    """What a cell did to the variables."""

    added: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One iteration: what the model wrote, and what came of it."""

    number: int
    started: float
    reasoning: str | None = None
    reply: str | None = None
    code: str = ""
    output: str | None = None
    """What came of the cell; None where it had not ended, or there was none."""

    success: bool = False
    seconds: float | None = None
    limit: str | None = None
    error: dict[str, Any] | None = None
    calls: tuple[CallOnRecord, ...] = ()
    variables: Variables = Variables()
    remarks: tuple[str, ...] = ()
    told: str | None = None
    """What the model was told afterwards."""

    finished: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt at an extraction."""

    number: int
    prompt: str
    text: str
    problems: tuple[dict[str, Any], ...] = ()
    seconds: float | None = None


class Rows(tuple[T, ...]):
    """A few records of one kind, in order; `to_pandas` makes a table of them."""

    __slots__ = ()

    def to_pandas(self) -> Any:
        """A data frame, one row a record. Needs pandas."""
        return frame(self)


def frame(records: Sequence[Any], **more: Sequence[Any]) -> Any:
    """A data frame of dataclasses. What is nested stays as it is in its cell."""
    import pandas

    rows = [{one.name: getattr(record, one.name) for one in dataclasses.fields(record)} for record in records]
    table = pandas.DataFrame(rows)
    for name, values in more.items():
        table.insert(0, name, list(values))
    return table
