"""The contents of a trace as plain values: events, iterations, host calls, model calls, prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event. Its long texts are references to blobs; `RunRecord.resolve` replaces them by the texts."""

    sequence: int
    parent: int | None
    """The sequence number of the enclosing event: the cell of a host call, the request of a reply."""

    kind: str
    time: float
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class HostCallRecord:
    """One call from a cell to the host."""

    id: int
    name: str
    iteration: int | None
    arguments: str
    """The arguments and keywords as JSON text."""

    answer: str | None
    """The answer as JSON text; None if there was none."""

    error: str | None
    seconds: float | None
    """The duration; None if the call had not ended."""

    started: float
    sequence: int

    @property
    def ended(self) -> bool:
        """Whether the call ended."""
        return self.seconds is not None


@dataclass(frozen=True, slots=True)
class ModelCallRecord:
    """One request to a model, without its texts: `RunRecord.prompts` has them."""

    id: int
    role: str
    iteration: int | None
    call: int | None
    """The host call that made the request, if one did."""

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
    """Whether the reply was replayed from an earlier run."""

    cached: bool = False
    """Whether the reply came from the response cache, at no cost."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a model with its complete text, and the reply."""

    id: int
    role: str
    iteration: int | None
    model: str
    system: str | None
    turns: tuple[tuple[str, str], ...]
    reply: str | None


@dataclass(frozen=True, slots=True)
class VariableChanges:
    """The changes that a cell made to the variables of the session."""

    added: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One iteration: the reply of the model, its code, and the outcome of the cell."""

    number: int
    started: float
    reasoning: str | None = None
    reply: str | None = None
    code: str = ""
    output: str | None = None
    """The output of the cell; None if the cell had not ended or there was none."""

    success: bool = False
    seconds: float | None = None
    limit: str | None = None
    error: dict[str, Any] | None = None
    calls: tuple[HostCallRecord, ...] = ()
    variables: VariableChanges = VariableChanges()
    hints: tuple[str, ...] = ()
    observation: str | None = None
    """The text that the model read after the cell."""

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
    """Records of one kind, in order."""

    __slots__ = ()

    def to_pandas(self) -> Any:
        """Return a data frame with one row for each record. Needs pandas."""
        return data_frame(self)


def data_frame(records: Sequence[Any], **columns: Sequence[Any]) -> Any:
    """Return a data frame of dataclasses, with further columns. Nested values stay as they are in their cells."""
    import pandas

    rows = [
        {attribute.name: getattr(record, attribute.name) for attribute in dataclasses.fields(record)}
        for record in records
    ]
    table = pandas.DataFrame(rows)
    for name, values in columns.items():
        table.insert(0, name, list(values))
    return table
