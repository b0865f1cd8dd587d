"""One open trace file: turns events into rows. It is used by one thread, the writer's."""

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
from .run_index import Progress, parent_of, update_row
from .schema import upgrade
from .writer_lock import lock_database

if TYPE_CHECKING:
    from ..events import Event

MAX_BYTES = 256 << 20
"""A file that is larger is not taken up again; a new one is begun."""

_CANDIDATES = 8
_BEGINNINGS = 20
_LOCK_S = 0.1
_EVENT = "INSERT INTO events (run, sequence, parent, kind, time, meta) VALUES (?, ?, ?, ?, ?, ?)"

OnConnect = Callable[[sqlite3.Connection], None]


class Recorder:
    """Writes events to one database. Opening takes up a file that nobody writes any more, or begins a new one."""

    def __init__(self, folder: Path, on_connect: OnConnect | None = None) -> None:
        self.path, self.lock, self._connection = _open(folder, on_connect)
        self._runs: dict[str, Progress] = {}
        self._redactor = Redactor()

    def write(self, events: Iterable[Event]) -> None:
        """Write events in one transaction: all of them, or none."""
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
        """Whether it is time for another file: this one is large, and no run is being written to it."""
        return not self._runs and self.path.stat().st_size > MAX_BYTES

    def close(self) -> None:
        """Close the file and give up its lock."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self.lock.release()

    def _row(self, event: Event) -> tuple[int, int, int | None, str, float, str]:
        when = event.time
        if isinstance(event, RunStarted):
            self._redactor = Redactor()  # the environment may have changed since
        run = self._runs.get(event.run_id) or self._begin(event, when)
        run.sequence += 1
        try:
            data = self._outline(event)
        except (TypeError, ValueError, RecursionError) as error:
            data = {"not_kept": f"{type(error).__name__}: {error}"[:200]}
        parent = parent_of(run, event)
        update_row(run, event, self._redactor.text)
        return run.number, run.sequence, parent, event.kind, when, to_json(data)

    def _outline(self, event: Event) -> dict[str, Any]:
        if not isinstance(event, RunStarted):
            return encode(event.data, self._redactor, self._put)
        data = event.data
        inputs = data.pop("inputs")
        return {
            **encode(data, self._redactor, self._put),
            "inputs": encode_inputs(inputs, self._redactor, self._put),
        }

    def _put(self, value: str | bytes) -> str:
        return blobs.store(self._connection, value)

    def _begin(self, event: Event, when: float) -> Progress:
        made = self._connection.execute(
            "INSERT INTO runs (id, name, started, seen) VALUES (?, '', ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET ended = NULL, ending = NULL RETURNING number, events",
            (event.run_id, when, when),
        )
        number, events = made.fetchone()
        run = self._runs[event.run_id] = Progress(number, sequence=events)
        return run

    def _update(self, run: Progress) -> None:
        columns = ", ".join(f"{name} = ?" for name in run.row)
        values = [*run.row.values(), run.number]
        self._connection.execute(f"UPDATE runs SET {columns} WHERE number = ?", values)
        run.changed = False


def _open(folder: Path, on_connect: OnConnect | None) -> tuple[Path, FileLock, sqlite3.Connection]:
    for path in databases(folder)[:_CANDIDATES]:
        # A database that is damaged, or of a later version, is left as it is, and another one is tried.
        with contextlib.suppress(Exception):
            if path.stat().st_size <= MAX_BYTES and (lock := lock_database(path)) is not None:
                return path, lock, _connect(path, lock, on_connect)
    for _ in range(_BEGINNINGS):
        path = create_database(folder)
        # Another process may take the new file first. A reader that looks for a live writer locks it for a moment, too.
        if (lock := lock_database(path, timeout=_LOCK_S)) is not None:
            return path, lock, _connect(path, lock, on_connect)
    raise OSError(f"{folder}: no new database could be locked")


def _connect(path: Path, lock: FileLock, on_connect: OnConnect | None) -> sqlite3.Connection:
    try:
        return connect(path, on_connect)
    except BaseException:
        lock.release()
        raise


def connect(path: Path, on_connect: OnConnect | None = None) -> sqlite3.Connection:
    """Open a database for writing, at the present version. Whoever calls this holds its lock."""
    address = f"{path.absolute().as_uri()}?mode=rw"  # never create it: it may just have been removed
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=5.0, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        if on_connect is not None:
            on_connect(connection)
        upgrade(connection)
        # Whoever wrote these is gone: they will not go on.
        connection.execute("UPDATE runs SET ending = 'unfinished' WHERE ended IS NULL AND ending IS NULL")
    except BaseException:
        connection.close()
        raise
    return connection
