"""One recorded run: the columns of its row, and the rest read from the database on demand."""

from __future__ import annotations

import dataclasses
import functools
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import RlmError
from . import assemble
from .encoding import resolve, restore_input
from .reader import TraceFile
from .records import AttemptRecord, EventRecord, HostCallRecord, IterationRecord, ModelCallRecord, Prompt, Rows

COLUMNS = (
    *("number", "id", "name", "task", "model", "parent", "parent_call", "depth", "resumed_from", "started", "seen"),
    *("ended", "ending", "reason", "confidence", "answer", "iterations", "llm_calls", "tokens", "cost_usd", "seconds"),
    *("own_tokens_in", "own_tokens_out", "own_cost_usd", "own_model_calls", "events"),
)


class UnknownRun(RlmError, LookupError):
    """No run, or more than one, has an id with this prefix."""


@dataclass(frozen=True)
class RunRecord:
    """One recorded run, as it was when it was loaded; `reload()` reads it again."""

    id: str
    name: str
    """The name of its signature."""

    task: str | None
    """Its task file, if it has one."""

    model: str | None
    """Its main model."""

    started: float
    ended: float | None
    ending: str
    """submitted, extracted or failed; running; unfinished if its process is gone; resumed if another run went on."""

    reason: str | None
    confidence: float | None
    answer: str | None
    """The beginning of its outputs."""

    iterations_used: int
    llm_calls: int
    tokens: int
    """Tokens in and out, child runs included."""

    cost_usd: float | None
    duration: float
    """Seconds; of an unfinished run, up to its last event."""

    own_tokens_in: int
    own_tokens_out: int
    own_cost_usd: float | None
    own_model_calls: int
    parent: str | None
    parent_call: int | None
    depth: int
    resumed_from: str | None
    event_count: int
    number: int = field(repr=False)
    resumed_by: str | None = field(default=None, kw_only=True)
    """The last run that resumed this one, unless it was loaded alone."""

    file: TraceFile = field(repr=False, compare=False)

    @property
    def shown_confidence(self) -> float | None:
        """The confidence as people are shown it: None for an answer that was submitted, and not judged further."""
        return (
            None
            if self.ending == "failed" or (self.ending == "submitted" and self.confidence == 1)
            else self.confidence
        )

    def reload(self) -> RunRecord:
        """Return the run as it is in the trace now."""
        rows = self.file.query(f"SELECT {', '.join(COLUMNS)} FROM runs WHERE id = ?", (self.id,))
        if not rows:
            raise UnknownRun(f"run {self.id} is no longer in the trace")
        return run_record(self.file, rows[0], self.file.live)

    def events(self, after: int = 0, limit: int | None = None, kinds: Iterable[str] = ()) -> list[EventRecord]:
        """Return the events after a sequence number, in order. Long texts are references."""
        kinds = tuple(kinds)
        condition = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        rows = self.file.query(
            "SELECT sequence, parent, kind, time, meta FROM events "
            f"WHERE run = ? AND sequence > ? {condition} ORDER BY sequence LIMIT ?",
            (self.number, after, *kinds, -1 if limit is None else limit),
        )
        return [EventRecord(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]

    def blob(self, digest: str, limit: int | None = None) -> str | bytes:
        """Return a text or bytes by hash; with a limit, only that many characters from its beginning."""
        blob = self.file.blob(digest, limit)
        return blob if limit is None else blob[:limit]

    def resolve(self, value: Any) -> Any:
        """Return a value of an event with every reference replaced by its text."""
        return resolve(value, self.file.blob)

    @functools.cached_property
    def beginning(self) -> dict[str, Any]:
        """The data of `run_started`: signature, models, limits, settings, task; the inputs in stored form."""
        events = self.events(limit=1, kinds=["run_started"])
        return events[0].data if events else {}

    @property
    def iterations(self) -> Rows[IterationRecord]:
        """The iterations in order, with their texts."""
        return Rows(assemble.iterations(self.events(kinds=assemble.ITERATION_KINDS), self.resolve))

    @property
    def calls(self) -> Rows[HostCallRecord]:
        """The calls from cells to the host, with their texts."""
        return Rows(assemble.host_calls(self.events(kinds=("call_started", "call_ended")), self.resolve))

    @property
    def model_calls(self) -> Rows[ModelCallRecord]:
        """The requests to models, with duration, tokens and cost, without texts."""
        return Rows(assemble.model_calls(self.events(kinds=("model_asked", "model_answered", "model_failed"))))

    @property
    def attempts(self) -> Rows[AttemptRecord]:
        """The attempts at an extraction."""
        return Rows(assemble.attempts(self.events(kinds=["extraction_attempt"]), self.resolve))

    def prompts(self) -> Rows[Prompt]:
        """Return every prompt with its complete text, and the reply."""
        return Rows(assemble.prompts(self.events(kinds=("model_asked", "model_answered")), self.resolve))

    def inputs(self) -> dict[str, Any]:
        """Return the values of the inputs. Raises `InputNotRecorded` if one of them could not be stored."""
        stored = self.beginning.get("inputs") or {}
        return {name: restore_input(name, value, self.file.blob) for name, value in stored.items()}

    def result(self) -> dict[str, Any] | None:
        """Return the result as its `to_dict()` returned it; None while there is none."""
        events = self.events(kinds=["run_ended"])
        result = self.resolve(events[-1].data).get("result") if events else None
        return result if isinstance(result, dict) else None

    @property
    def children(self) -> list[RunRecord]:
        """The child runs, in the order in which they started."""
        sql = f"SELECT {', '.join(COLUMNS)} FROM runs WHERE parent = ? ORDER BY started, number"
        live = self.file.live
        return [run_record(self.file, row, live) for row in self.file.query(sql, (self.id,))]

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of the run as plain JSON values."""
        hidden = ("number", "file")
        return {
            attribute.name: getattr(self, attribute.name)
            for attribute in dataclasses.fields(self)
            if attribute.name not in hidden
        }

    def _repr_html_(self) -> str:
        from .notebook_view.html import run_html

        return run_html(self)


def run_record(file: TraceFile, row: sqlite3.Row, live: bool) -> RunRecord:
    """Make a run from its row. `live` says whether its writer is alive: the run is running, or unfinished."""
    tokens = max(row["tokens"], row["own_tokens_in"] + row["own_tokens_out"])
    seconds = row["seconds"]
    if row["ended"] is None:
        seconds = max(seconds or 0.0, row["seen"] - row["started"])
    return RunRecord(
        **{name: row[name] for name in ("id", "name", "task", "model", "started", "ended", "reason", "confidence")},
        **{name: row[name] for name in ("answer", "llm_calls", "parent", "parent_call", "depth", "resumed_from")},
        **{name: row[name] for name in COLUMNS if name.startswith("own_")},
        ending=row["ending"] or ("running" if live else "unfinished"),
        iterations_used=row["iterations"],
        tokens=tokens,
        cost_usd=row["own_cost_usd"] if row["cost_usd"] is None else row["cost_usd"],
        duration=seconds if seconds is not None else row["seen"] - row["started"],
        event_count=row["events"],
        number=row["number"],
        file=file,
    )
