"""The tables of a trace database, and the migrations to them from every earlier version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from ..errors import RlmError
from ..files import transaction

_ANSWER_CHARS = 200


class NewerVersion(RlmError):
    """A trace database was written by a later version of rlm than this one."""


def upgrade(connection: sqlite3.Connection) -> None:
    """Migrate a database to the current version. Each migration is one transaction."""
    version = version_of(connection)
    if version > VERSION:
        raise NewerVersion(f"the database has version {version}; this rlm knows versions up to {VERSION}")
    for number, migrate in enumerate(MIGRATIONS[version:], version + 1):
        with transaction(connection):
            migrate(connection)
            connection.execute(f"PRAGMA user_version = {number}")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database; 0 if it is empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def answer_text(outputs: object, scrub: Callable[[str], str] = str) -> str | None:
    """Return how the outputs of a result begin, for lists; None if there are none. `scrub` replaces secrets."""
    if not isinstance(outputs, dict) or not outputs:
        return None
    parts = []
    for name, value in outputs.items():
        if isinstance(value, dict) and "$body" in value:
            value = value.get("head", "")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        parts.append(f"{name}: {scrub(text)[:_ANSWER_CHARS]}")
    return ", ".join(parts)[:_ANSWER_CHARS]


def _create_tables(connection: sqlite3.Connection) -> None:
    """Version 1."""
    for statement in (
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            parent TEXT,
            parent_call INTEGER,
            depth INTEGER NOT NULL DEFAULT 0,
            resumed_from TEXT,
            started REAL NOT NULL,
            seen REAL NOT NULL,
            ended REAL,
            ending TEXT,
            reason TEXT,
            confidence REAL,
            iterations INTEGER NOT NULL DEFAULT 0,
            llm_calls INTEGER NOT NULL DEFAULT 0,
            tokens INTEGER NOT NULL DEFAULT 0,
            cost_usd REAL,
            seconds REAL,
            own_tokens_in INTEGER NOT NULL DEFAULT 0,
            own_tokens_out INTEGER NOT NULL DEFAULT 0,
            own_cost_usd REAL,
            own_model_calls INTEGER NOT NULL DEFAULT 0,
            events INTEGER NOT NULL DEFAULT 0)""",
        """CREATE TABLE events (
            run INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            parent INTEGER,
            kind TEXT NOT NULL,
            time REAL NOT NULL,
            meta TEXT NOT NULL,
            PRIMARY KEY (run, sequence)) WITHOUT ROWID""",
        """CREATE TABLE bodies (
            number INTEGER PRIMARY KEY,
            hash BLOB NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            size INTEGER NOT NULL,
            packed INTEGER NOT NULL DEFAULT 0,
            bytes BLOB)""",
        """CREATE TABLE pieces (
            body INTEGER NOT NULL,
            number INTEGER NOT NULL,
            packed INTEGER NOT NULL,
            bytes BLOB NOT NULL,
            UNIQUE (body, number))""",
        "CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL",
    ):
        connection.execute(statement)


def _add_columns(connection: sqlite3.Connection) -> None:
    """Version 2: answer, task file and main model in `runs`, so that lists need no event."""
    for column in ("answer", "task", "model"):
        connection.execute(f"ALTER TABLE runs ADD COLUMN {column} TEXT")
    rows = connection.execute(
        "SELECT run, kind, meta FROM events WHERE kind IN ('run_started', 'run_ended') ORDER BY run, sequence"
    ).fetchall()
    for run, kind, meta in rows:
        data = json.loads(meta)
        if kind == "run_ended":
            result = data.get("result")
            answer = answer_text(result.get("outputs") if isinstance(result, dict) else None)
            connection.execute("UPDATE runs SET answer = ? WHERE number = ?", (answer, run))
        else:
            task, models = data.get("task") or {}, data.get("models") or {}
            about = (task.get("path"), models.get("main"), run)
            connection.execute("UPDATE runs SET task = ?, model = ? WHERE number = ?", about)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_create_tables, _add_columns)
VERSION = len(MIGRATIONS)
