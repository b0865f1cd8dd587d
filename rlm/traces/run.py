"""One run on record: its row at once, everything else of it as it is asked for."""

from __future__ import annotations

import dataclasses
import functools
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import assemble
from .encoding import filled
from .inputs import restore_input
from .reader import TraceFile
from .records import AttemptRecord, CallOnRecord, EventRecord, IterationRecord, ModelCall, Prompt, Rows

COLUMNS = (
    *("number", "id", "name", "task", "model", "parent", "parent_call", "depth", "resumed_from", "started", "seen"),
    *("ended", "ending", "reason", "confidence", "answer", "iterations", "llm_calls", "tokens", "cost_usd", "seconds"),
    *("own_tokens_in", "own_tokens_out", "own_cost_usd", "own_model_calls", "events"),
)


class UnknownRun(LookupError):
    """No run, or more than one, has an id that begins like this."""


@dataclass(frozen=True)
class RunRecord:
    """One run on record. The fields are as they were when it was loaded; `again()` looks once more."""

    id: str
    name: str
    """The name of its signature."""

    task: str | None
    """Its task file, if it had one."""

    model: str | None
    """Its main model."""

    started: float
    ended: float | None
    ending: str
    """submitted, extracted or failed; running, or unfinished if its process is gone."""

    reason: str | None
    confidence: float | None
    answer: str | None
    """How its outputs begin."""

    iterations_used: int
    llm_calls: int
    tokens: int
    """Tokens read and written, its child runs included."""

    cost_usd: float | None
    duration: float
    """Seconds, as far as is known."""

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
    file: TraceFile = field(repr=False, compare=False)

    def again(self) -> RunRecord:
        """The run as it is on record now."""
        rows = self.file.query(f"SELECT {', '.join(COLUMNS)} FROM runs WHERE id = ?", (self.id,))
        if not rows:
            raise UnknownRun(f"run {self.id} is no longer on record")
        return record(self.file, rows[0], self.file.live)

    def events(self, after: int = 0, limit: int | None = None, kinds: Iterable[str] = ()) -> list[EventRecord]:
        """Events after a sequence number, in order. Their long texts are references."""
        wanted = tuple(kinds)
        among = f"AND kind IN ({', '.join('?' * len(wanted))})" if wanted else ""
        rows = self.file.query(
            "SELECT sequence, parent, kind, time, meta FROM events "
            f"WHERE run = ? AND sequence > ? {among} ORDER BY sequence LIMIT ?",
            (self.number, after, *wanted, -1 if limit is None else limit),
        )
        return [EventRecord(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]

    def body(self, digest: str, limit: int | None = None) -> str | bytes:
        """A text or bytes by its hash; with a limit, only so much of the beginning."""
        found = self.file.body(digest, limit)
        return found if limit is None else found[:limit]

    def filled(self, value: Any) -> Any:
        """A value of an event, with the texts that it refers to put in."""
        return filled(value, self.file.body)

    @functools.cached_property
    def beginning(self) -> dict[str, Any]:
        """What the run started from: signature, models, limits, settings, task. The inputs are outlines."""
        found = self.events(limit=1, kinds=["run_started"])
        return found[0].data if found else {}

    @property
    def iterations(self) -> Rows[IterationRecord]:
        """The iterations in order, with their texts."""
        return Rows(assemble.iterations(self.events(kinds=assemble.ITERATION_KINDS), self.filled))

    @property
    def calls(self) -> Rows[CallOnRecord]:
        """The calls from cells to the host, with their texts."""
        return Rows(assemble.calls(self.events(kinds=("call_started", "call_ended")), self.filled))

    @property
    def model_calls(self) -> Rows[ModelCall]:
        """The questions to models: which, how long, how many tokens, at what cost. No texts."""
        return Rows(assemble.model_calls(self.events(kinds=("model_asked", "model_answered", "model_failed"))))

    @property
    def attempts(self) -> Rows[AttemptRecord]:
        """The attempts at an extraction."""
        return Rows(assemble.attempts(self.events(kinds=["extraction_attempt"]), self.filled))

    def prompts(self) -> Rows[Prompt]:
        """Every prompt whole, with the reply."""
        return Rows(assemble.prompts(self.events(kinds=("model_asked", "model_answered")), self.filled))

    def inputs(self) -> dict[str, Any]:
        """The inputs as they were given. Raises `NotKept` where one could not be written down."""
        kept = self.beginning.get("inputs") or {}
        return {name: restore_input(name, one, self.file.body) for name, one in kept.items()}

    def result(self) -> dict[str, Any] | None:
        """The result as its `to_dict()` gave it; None while there is none."""
        found = self.events(kinds=["run_ended"])
        result = self.filled(found[-1].data).get("result") if found else None
        return result if isinstance(result, dict) else None

    @property
    def children(self) -> list[RunRecord]:
        """The runs that this one started, in order."""
        sql = f"SELECT {', '.join(COLUMNS)} FROM runs WHERE parent = ? ORDER BY started, number"
        live = self.file.live
        return [record(self.file, row, live) for row in self.file.query(sql, (self.id,))]

    def to_dict(self) -> dict[str, Any]:
        """What a list shows of the run, as plain JSON values."""
        hidden = ("number", "file")
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name not in hidden}

    def _repr_html_(self) -> str:
        from .notebook_html import run_html

        return run_html(self)


def record(file: TraceFile, row: sqlite3.Row, live: bool) -> RunRecord:
    """A run from its row. Whether its writer lives tells a run that goes on from one that does not."""
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
