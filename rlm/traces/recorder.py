"""The recorder: turns events into rows of one open trace file, and keeps the rows of its runs up to date.

It is used by one thread, the writer's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..events import (
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    Event,
    FilesWritten,
    IterationStarted,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    RunEnded,
    RunInterrupted,
    RunStarted,
    SignatureInfo,
    TriggerFired,
)
from ..files import FileLock
from ..redaction import Redactor
from ..results import Failed
from . import blobs
from .encoding import HEAD, SHORT, encode, encode_inputs, to_json
from .paths import create_database, databases, lock_database
from .schema import answer_text, upgrade

MAX_BYTES = 256 << 20
"""A database that is larger is not reused; a new one is created."""

_MAX_CANDIDATES = 8
_MAX_NEW = 20
_LOCK_TIMEOUT_S = 0.1

NOT_RECORDED = "not_recorded"
"""The kind of a record that replaces an event that could not be recorded: the event's kind, and why."""

_EVENT = "INSERT INTO events (run, sequence, parent, kind, time, meta) VALUES (?, ?, ?, ?, ?, ?)"

OnConnect = Callable[[sqlite3.Connection], None]


class Recorder:
    """Writes events to one database: a recent one without a writer, or a new one."""

    def __init__(self, folder: Path, on_connect: OnConnect | None = None) -> None:
        self.path, self.lock, self._connection = _open(folder, on_connect)
        self._runs: dict[str, RunIndex] = {}
        self._redactor = Redactor()

    def write(self, events: Sequence[Event]) -> None:
        """Write events in one transaction. An event that cannot be recorded is replaced by a record that says so."""
        before = {run_id: run.copy() for run_id, run in self._runs.items()}
        try:
            self._write(self._row(event) for event in events)
            return
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self._runs = before
            if _is_the_database(error):
                raise
            problem = error
        if len(events) > 1:
            for event in events:
                self.write([event])
        else:
            self._write(self._replacement(event, problem) for event in events)

    def _write(self, rows: Iterable[tuple[Any, ...]]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_EVENT, list(rows))
        for run_id, run in list(self._runs.items()):
            if run.changed:
                self._update(run)
            if run.row.get("ending") is not None:
                del self._runs[run_id]
        connection.execute("COMMIT")

    def full(self) -> bool:
        """Return whether to continue in another database: this one is large, and has no unfinished run."""
        return not self._runs and self.path.stat().st_size > MAX_BYTES

    def close(self) -> None:
        """Close the database and release its lock."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self.lock.release()

    def _row(self, event: Event) -> tuple[int, int, int | None, str, float, str]:
        if isinstance(event, RunStarted):
            self._redactor = Redactor()  # the environment may have changed since
        run = self._runs.get(event.run_id) or self._add_run(event.run_id, event.time)
        run.sequence += 1
        data = to_json(self._encode(event))
        parent = parent_of(run, event)
        update_row(run, event, self._redactor.text)
        return run.number, run.sequence, parent, event.kind, event.time, data

    def _replacement(self, event: Event, problem: Exception) -> tuple[int, int, int | None, str, float, str]:
        """Return the row of an event that cannot be recorded: its kind, and why. A run that ended has still ended."""
        now = event.time if isinstance(event.time, float) and math.isfinite(event.time) else time.time()
        run = self._runs.get(event.run_id) or self._add_run(event.run_id, now)
        run.sequence += 1
        run.row["seen"], run.row["events"], run.changed = now, run.sequence, True
        if isinstance(event, RunEnded):
            run.row["ended"], run.row["ending"] = now, event.ending.lower()
        try:
            why = self._redactor.text(f"{type(problem).__name__}: {problem}"[:200])
        except Exception:  # its own text fails
            why = type(problem).__name__
        data = {"kind": event.kind, "iteration": run.number_of_iteration, "not_kept": why}
        return run.number, run.sequence, None, NOT_RECORDED, now, to_json(data)

    def _encode(self, event: Event) -> dict[str, Any]:
        if isinstance(event, FilesWritten):
            bodies = {name: self._store(self._redactor.data(content)) for name, content in event.contents.items()}
            files = [{**file, "body": bodies.get(file["name"])} for file in event.files]
            return encode({"files": files}, self._redactor, self._store)
        if not isinstance(event, RunStarted):
            return encode(event.data, self._redactor, self._store)
        data = event.data
        inputs = data.pop("inputs")
        return {
            **encode(data, self._redactor, self._store),
            "inputs": encode_inputs(inputs, self._redactor, self._store),
        }

    def _store(self, value: str | bytes) -> str:
        return blobs.store(self._connection, value)

    def _add_run(self, run_id: str, started: float) -> RunIndex:
        row = self._connection.execute(
            "INSERT INTO runs (id, name, started, seen) VALUES (?, '', ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET ended = NULL, ending = NULL RETURNING number, events",
            (run_id, started, started),
        )
        number, events = row.fetchone()
        run = self._runs[run_id] = RunIndex(number, sequence=events)
        return run

    def _update(self, run: RunIndex) -> None:
        columns = ", ".join(f"{name} = ?" for name in run.row)
        values = [*run.row.values(), run.number]
        self._connection.execute(f"UPDATE runs SET {columns} WHERE number = ?", values)
        run.changed = False


def _open(folder: Path, on_connect: OnConnect | None) -> tuple[Path, FileLock, sqlite3.Connection]:
    for path in databases(folder)[:_MAX_CANDIDATES]:
        # A damaged database, or one of a later version, is left as it is.
        with contextlib.suppress(Exception):
            if path.stat().st_size <= MAX_BYTES and (lock := lock_database(path)) is not None:
                return path, lock, _connect(path, lock, on_connect)
    for _ in range(_MAX_NEW):
        path = create_database(folder)
        # Another process may lock the new database first; a reader that looks for a live writer locks it briefly, too.
        if (lock := lock_database(path, timeout=_LOCK_TIMEOUT_S)) is not None:
            return path, lock, _connect(path, lock, on_connect)
    raise OSError(f"{folder}: no new database could be locked")


def _connect(path: Path, lock: FileLock, on_connect: OnConnect | None) -> sqlite3.Connection:
    try:
        return connect(path, on_connect)
    except BaseException:
        lock.release()
        raise


def connect(path: Path, on_connect: OnConnect | None = None) -> sqlite3.Connection:
    """Open a database for writing, and upgrade it to the current version. The caller holds its lock."""
    address = f"{path.absolute().as_uri()}?mode=rw"  # never create it: it may have been removed meanwhile
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=5.0, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        if on_connect is not None:
            on_connect(connection)
        upgrade(connection)
        # The writers of these runs have ended.
        connection.execute("UPDATE runs SET ending = 'unfinished' WHERE ended IS NULL AND ending IS NULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_the_database(error: Exception) -> bool:
    """Return whether an error is one of the database (full, locked, damaged), not of the event that was written."""
    if isinstance(
        error, sqlite3.DataError | sqlite3.IntegrityError | sqlite3.InterfaceError | sqlite3.ProgrammingError
    ):
        return False
    return isinstance(error, sqlite3.Error)


Scrub = Callable[[str], str]


@dataclass(slots=True)
class RunIndex:
    """The open events of a run, by which later events find their parents, and the columns of its row."""

    number: int
    sequence: int = 0
    iteration: int | None = None
    cell: int | None = None
    trigger: int | None = None
    asked: dict[int, int] = field(default_factory=dict)
    calls: dict[int | None, int] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    """The columns of its row that are set so far; written once in each batch."""

    changed: bool = False

    @property
    def number_of_iteration(self) -> int | None:
        """The number of the last iteration that started."""
        return self.row.get("iterations")

    def copy(self) -> RunIndex:
        """Return a copy that later events do not change."""
        return dataclasses.replace(self, asked=dict(self.asked), calls=dict(self.calls), row=dict(self.row))


def parent_of(run: RunIndex, event: Event) -> int | None:
    """Return the sequence number of the enclosing event, and register events that enclose others."""
    here = run.sequence
    match event:
        case RunStarted() | RunEnded():
            return None
        case IterationStarted():
            run.iteration, run.cell = here, None
            return None
        case ModelAsked():
            run.asked[event.id] = here
            return run.calls.get(event.call) or run.trigger or run.iteration
        case ModelAnswered() | ModelFailed():
            return run.asked.pop(event.id, None) or run.iteration
        case CellStarted():
            run.cell = here
            return run.iteration
        case CellEnded():
            cell, run.cell = run.cell, None
            return cell
        case CallStarted():
            run.calls[event.id] = here
            return run.cell or run.iteration
        case CallEnded():
            return run.calls.pop(event.id, None)
        case TriggerFired():
            run.trigger, run.iteration = here, None
            return None
        case _:
            return run.trigger or run.iteration


def update_row(run: RunIndex, event: Event, scrub: Scrub) -> None:
    """Update the columns of the run's row. `scrub` replaces secrets in a text."""
    row = run.row
    row["seen"], row["events"], run.changed = event.time, run.sequence, True
    match event:
        case RunStarted():
            row["name"] = scrub(_name(event.signature))
            row["started"] = event.time
            row["parent"], row["parent_call"] = event.parent, event.parent_call
            row["resumed_from"] = event.resumed_from
            row["depth"] = event.depth
            task = _task(event.task)
            row["task"] = None if task is None else scrub(task)
            row["model"] = scrub(event.models.main)
        case IterationStarted():
            row["iterations"] = event.iteration
        case ModelAnswered(past=False):  # a replayed reply costs nothing
            _count_model_call(row, event)
        case BudgetUsed():
            _update(row, event, ("iterations", "llm_calls", "tokens", "cost_usd", "seconds"))
        case RunInterrupted():
            row["ending"] = "unfinished"
        case RunEnded(result=result):
            row["ended"] = event.time
            row["ending"] = event.ending.lower()
            reason = getattr(result, "reason", None)
            row["reason"] = None if reason is None else _head(scrub(str(reason)))
            row["confidence"] = result.confidence
            # A run with plans has no iterations itself: its result has those of the accepted plan.
            row["iterations"] = max(row.get("iterations", 0), result.iterations)
            row["answer"] = None if isinstance(result, Failed) else answer_text(result.outputs_to_dict(), scrub)
            _update(row, result.usage, ("llm_calls", "cost_usd", "seconds", "tokens"))
        case _:
            pass


def _name(signature: SignatureInfo) -> str:
    """Return the name of a signature; a signature given as text has none, and is called by its fields."""
    if signature.name not in ("", "Task"):
        return signature.name
    return f"{', '.join(signature.inputs)} -> {', '.join(signature.outputs)}"[:200]


def _count_model_call(row: dict[str, Any], event: ModelAnswered) -> None:
    row["own_model_calls"] = row.get("own_model_calls", 0) + 1
    row["own_tokens_in"] = row.get("own_tokens_in", 0) + event.tokens_in
    row["own_tokens_out"] = row.get("own_tokens_out", 0) + event.tokens_out
    if event.cost_usd is not None:
        row["own_cost_usd"] = (row.get("own_cost_usd") or 0.0) + event.cost_usd


def _update(row: dict[str, Any], usage: object, names: tuple[str, ...]) -> None:
    row.update({name: value for name in names if (value := getattr(usage, name)) is not None})


def _head(text: str) -> str:
    return text if len(text) <= SHORT else text[:HEAD]


def _task(task: Mapping[str, Any] | None) -> str | None:
    """Return the task file of a run, or the name of the plan that it executes."""
    if not task:
        return None
    if task.get("path"):
        return str(task["path"])
    plan = task.get("plan")
    return f"plan: {plan.get('name')}" if isinstance(plan, Mapping) else None
