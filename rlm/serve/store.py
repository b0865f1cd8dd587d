"""The server's own records: whose every session, run and response is, and how runs ended. What was said is in journals.

One SQLite file, `RLM_HOME/serve.sqlite`, with one server at a time. Every query names the owner: what belongs to
another token is not found.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..files import FileLock, transaction

_VERSION = 1
_BUSY_S = 10.0
_DAY_S = 86_400.0
KEPT = 10_000
"""The latest runs, responses and conversations of one owner that are remembered. Runs of the last day always are."""

_TABLES = (
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, model TEXT NOT NULL, title TEXT NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, bytes INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    "CREATE INDEX sessions_by_owner ON sessions (owner, updated)",
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, model TEXT NOT NULL, session TEXT, created REAL NOT NULL,
        ended REAL, ending TEXT, result TEXT) WITHOUT ROWID""",
    "CREATE INDEX runs_by_owner ON runs (owner, created)",
    """CREATE TABLE responses (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, session TEXT NOT NULL, run TEXT NOT NULL, created REAL NOT NULL)
        WITHOUT ROWID""",
    # What a conversation was, up to the answer of a run: a client that sends it again goes on in its session.
    "CREATE TABLE turns (owner TEXT NOT NULL, hash TEXT NOT NULL, session TEXT NOT NULL, run TEXT NOT NULL,"
    " created REAL NOT NULL, PRIMARY KEY (owner, hash)) WITHOUT ROWID",
    "CREATE INDEX responses_by_owner ON responses (owner, created)",
    "CREATE INDEX turns_by_owner ON turns (owner, created)",
)


class ServerInUse(RlmError):
    """Another server uses the same folder."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session, and whose it is."""

    id: str
    owner: str
    model: str
    title: str
    created: float
    updated: float
    bytes: int
    """What was sent to it."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, and whose it is."""

    id: str
    owner: str
    model: str
    session: str | None
    created: float
    ended: float | None
    ending: str | None
    """submitted, extracted, failed or interrupted; None while it runs."""

    result: dict[str, Any] | None


class ServerStore:
    """The records of one server. Any thread may use it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file_lock = FileLock(folder / "serve.lock")
        if not self._file_lock.acquire(0):
            raise ServerInUse(f"another `rlm serve` uses {folder}; stop it first, or set RLM_HOME to another folder")
        self._guard = threading.RLock()
        path = folder / "serve.sqlite"
        try:
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._prepare(path)
        except BaseException:
            self._file_lock.release()
            raise

    def close(self) -> None:
        """Close the file, and let another server use it."""
        with self._guard:
            self._connection.close()
            self._file_lock.release()

    # Sessions ----------------------------------------------------------------------------------------------------

    def add_session(self, session: SessionRow) -> None:
        """Record a new session."""
        with self._transaction() as connection:
            values = (session.id, session.owner, session.model, session.title, session.created, session.updated)
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, session.bytes))

    def session(self, owner: str, session_id: str) -> SessionRow | None:
        """Return a session of an owner; None where there is none, or it is another's."""
        rows = self._rows("SELECT * FROM sessions WHERE id = ? AND owner = ?", session_id, owner)
        return SessionRow(*rows[0]) if rows else None

    def sessions(self, owner: str, limit: int = 1_000) -> list[SessionRow]:
        """Return the sessions of an owner, the latest first."""
        sql = "SELECT * FROM sessions WHERE owner = ? ORDER BY updated DESC, id LIMIT ?"
        return [SessionRow(*row) for row in self._rows(sql, owner, limit)]

    def count_sessions(self, owner: str) -> int:
        """Return how many sessions an owner has."""
        return int(self._rows("SELECT count(*) FROM sessions WHERE owner = ?", owner)[0][0])

    def touch_session(self, session_id: str, added_bytes: int = 0) -> None:
        """Note that a session was used, and what was sent to it."""
        with self._transaction() as connection:
            sql = "UPDATE sessions SET updated = ?, bytes = bytes + ? WHERE id = ?"
            connection.execute(sql, (time.time(), added_bytes, session_id))

    def title_session(self, session_id: str, title: str) -> None:
        """Set the title of a session that has none."""
        with self._transaction() as connection:
            connection.execute("UPDATE sessions SET title = ? WHERE id = ? AND title = ''", (title, session_id))

    def remove_session(self, session_id: str) -> None:
        """Remove a session. Its runs stay, for the limits of a day and for their traces."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            connection.execute("DELETE FROM turns WHERE session = ?", (session_id,))
            connection.execute("DELETE FROM responses WHERE session = ?", (session_id,))

    # Runs --------------------------------------------------------------------------------------------------------

    def add_run(self, run_id: str, owner: str, model: str, session: str | None) -> None:
        """Record a run that is about to start."""
        with self._transaction() as connection:
            now = time.time()
            sql = "INSERT INTO runs (id, owner, model, session, created) VALUES (?, ?, ?, ?, ?)"
            connection.execute(sql, (run_id, owner, model, session, now))
            old = "SELECT id FROM runs WHERE owner = ? AND created < ? ORDER BY created DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM runs WHERE id IN ({old})", (owner, now - _DAY_S, KEPT))

    def end_run(self, run_id: str, ending: str, result: dict[str, Any] | None) -> None:
        """Record how a run ended."""
        text = None if result is None else json.dumps(result)
        with self._transaction() as connection:
            sql = "UPDATE runs SET ended = ?, ending = ?, result = ? WHERE id = ?"
            connection.execute(sql, (time.time(), ending, text, run_id))

    def run(self, owner: str, run_id: str) -> RunRow | None:
        """Return a run of an owner; None where there is none, or it is another's."""
        rows = self._rows("SELECT * FROM runs WHERE id = ? AND owner = ?", run_id, owner)
        return _run(rows[0]) if rows else None

    def runs(self, owner: str, limit: int = 100) -> list[RunRow]:
        """Return the latest runs of an owner, without their results."""
        sql = (
            "SELECT id, owner, model, session, created, ended, ending, NULL FROM runs WHERE owner = ? "
            "ORDER BY created DESC, id LIMIT ?"
        )
        return [_run(row) for row in self._rows(sql, owner, limit)]

    def owns_run(self, owner: str, run_id: str) -> bool:
        """Return whether a run is this owner's."""
        return bool(self._rows("SELECT 1 FROM runs WHERE id = ? AND owner = ?", run_id, owner))

    def run_ids(self, owner: str) -> set[str]:
        """Return the ids of all runs of an owner."""
        return {row[0] for row in self._rows("SELECT id FROM runs WHERE owner = ?", owner)}

    def day_seconds(self, owner: str) -> float:
        """Return the seconds of all runs of an owner in the last 24 hours, those that run among them."""
        now = time.time()
        sql = "SELECT sum(min(?, coalesce(ended, ?)) - max(created, ?)) FROM runs WHERE owner = ? AND created > ?"
        since = now - _DAY_S
        return float(self._rows(sql, now, now, since, owner, since)[0][0] or 0.0)

    # Conversations -----------------------------------------------------------------------------------------------

    def add_response(self, response_id: str, owner: str, session: str, run: str) -> None:
        """Record a response, to be gone on from."""
        with self._transaction() as connection:
            values = (response_id, owner, session, run, time.time())
            connection.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?)", values)
            old = "SELECT id FROM responses WHERE owner = ? ORDER BY created DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM responses WHERE id IN ({old})", (owner, KEPT))

    def response(self, owner: str, response_id: str) -> tuple[str, str, float] | None:
        """Return session, run and time of a response of an owner; None where there is none."""
        sql = "SELECT session, run, created FROM responses WHERE id = ? AND owner = ?"
        rows = self._rows(sql, response_id, owner)
        return tuple(rows[0]) if rows else None

    def move_response(self, response_id: str, session: str, run: str) -> None:
        """Record that a conversation has got a session, or gone on in it."""
        with self._transaction() as connection:
            connection.execute("UPDATE responses SET session = ?, run = ? WHERE id = ?", (session, run, response_id))

    def remove_response(self, response_id: str) -> None:
        """Remove a response; its session stays."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM responses WHERE id = ?", (response_id,))

    def add_turn(self, owner: str, digest: str, session: str, run: str) -> None:
        """Record a conversation up to the answer of a run, by hash."""
        with self._transaction() as connection:
            values = (owner, digest, session, run, time.time())
            connection.execute("INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?)", values)
            old = "SELECT hash FROM turns WHERE owner = ? ORDER BY created DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM turns WHERE owner = ? AND hash IN ({old})", (owner, owner, KEPT))

    def turn(self, owner: str, digest: str) -> tuple[str, str] | None:
        """Return session and run of a conversation; None where it is not known."""
        rows = self._rows("SELECT session, run FROM turns WHERE owner = ? AND hash = ?", owner, digest)
        return tuple(rows[0]) if rows else None

    # -------------------------------------------------------------------------------------------------------------

    def _prepare(self, path: Path) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise RlmError(f"{path}: written by a later rlm (version {version}; this rlm reads {_VERSION})")
        with self._transaction() as connection:
            if version == 0:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            # The server was killed: a run without an ending counts until its last sign of life, which is its start.
            connection.execute("UPDATE runs SET ended = created, ending = 'interrupted' WHERE ended IS NULL")

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._guard:
            return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guard, transaction(self._connection):
            yield self._connection


def _run(row: Any) -> RunRow:
    run_id, owner, model, session, created, ended, ending, result = row
    return RunRow(run_id, owner, model, session, created, ended, ending, None if result is None else json.loads(result))
