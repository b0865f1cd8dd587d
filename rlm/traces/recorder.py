"""The conversion of events to rows of one open database. Only the thread of the writer uses it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..events import RunStarted
from ..files import FileLock
from ..redaction import Redactor
from . import blobs
from .encoding import encode, to_json
from .inputs import encode_inputs
from .paths import create_database, databases
from .run_index import RunIndex, parent_of, update_row
from .schema import upgrade
from .writer_lock import lock_database

if TYPE_CHECKING:
    from ..events import Event

MAX_BYTES = 256 << 20
"""A database that is larger is not reused; a new one is created."""

_MAX_CANDIDATES = 8
_MAX_NEW = 20
_LOCK_TIMEOUT_S = 0.1
_EVENT = "INSERT INTO events (run, sequence, parent, kind, time, meta) VALUES (?, ?, ?, ?, ?, ?)"

OnConnect = Callable[[sqlite3.Connection], None]


class Recorder:
    """Writes events to one database: a recent one without a writer, or a new one."""

    def __init__(self, folder: Path, on_connect: OnConnect | None = None) -> None:
        self.path, self.lock, self._connection = _open(folder, on_connect)
        self._runs: dict[str, RunIndex] = {}
        self._redactor = Redactor()

    def write(self, events: Iterable[Event]) -> None:
        """Write events in one transaction."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        rows = [self._row(event) for event in events]
        connection.executemany(_EVENT, rows)
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
        run = self._runs.get(event.run_id) or self._add_run(event)
        run.sequence += 1
        try:
            data = self._encode(event)
        except (TypeError, ValueError, RecursionError) as error:
            data = {"not_kept": f"{type(error).__name__}: {error}"[:200]}
        parent = parent_of(run, event)
        update_row(run, event, self._redactor.text)
        return run.number, run.sequence, parent, event.kind, event.time, to_json(data)

    def _encode(self, event: Event) -> dict[str, Any]:
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

    def _add_run(self, event: Event) -> RunIndex:
        row = self._connection.execute(
            "INSERT INTO runs (id, name, started, seen) VALUES (?, '', ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET ended = NULL, ending = NULL RETURNING number, events",
            (event.run_id, event.time, event.time),
        )
        number, events = row.fetchone()
        run = self._runs[event.run_id] = RunIndex(number, sequence=events)
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
