"""Read-only access to trace databases, also while another process writes to them. A reader never changes a file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import blobs
from .paths import writer_is_alive
from .schema import VERSION, NewerVersion, upgrade, version_of


class EmptyDatabase(Exception):
    """A database without tables: its writer has just created it, or was killed there."""


class TraceFile:
    """One trace database, opened for reading. Any thread may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @property
    def live(self) -> bool:
        """Whether the writer of the database is alive."""
        return writer_is_alive(self.path)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._lock:
            return self._open().execute(sql, values).fetchall()

    def blob(self, digest: str, limit: int | None = None) -> str | bytes:
        """Return the blob with this hash. Raises `BlobNotFound`."""
        with self._lock:
            return blobs.fetch(self._open(), digest, limit)

    def close(self) -> None:
        """Close the connection; the next query opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_to_read(self.path)
        return self._connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a read-only connection at the current schema version. An older file is upgraded as a copy in memory."""
    connection = _connect(path)
    try:
        version = version_of(connection)
        if version > VERSION:
            raise NewerVersion(f"{path}: version {version}; this rlm reads versions up to {VERSION}")
        if version == 0:
            raise EmptyDatabase(f"{path} has no tables yet")
        if version < VERSION:
            copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            connection.backup(copy)
            connection.close()
            connection = copy
            upgrade(connection)
    except BaseException:
        connection.close()
        raise
    connection.row_factory = sqlite3.Row
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=5.0, check_same_thread=False)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if not path.exists():
            raise
        # On a read-only medium no file can be created beside the database; its own contents can still be read.
        address = f"{path.absolute().as_uri()}?immutable=1"
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    return connection
