"""The journal of a session: its questions, replies, cells and host calls, in one SQLite file with one writer.

Every row is committed before the run goes on, so that a killed process loses nothing that was answered. Long texts are
stored once, by hash. Secrets are replaced, as in a trace.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files import FileLock, home, is_locked, transaction
from ..redaction import Redactor
from ..traces import blobs
from ..traces.encoding import encode, encode_inputs, resolve, restore_input, to_json
from .errors import SessionError, SessionInUse, UnknownSession

VERSION = 1
INPUTS = ("inputs", "asked")
"""Kinds of steps with inputs: those of the session, and those of one question."""

SUFFIX = ".sqlite"
_BUSY_S = 10.0

_TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE questions (
        number INTEGER PRIMARY KEY,
        run TEXT NOT NULL,
        signature TEXT NOT NULL,
        asked TEXT NOT NULL,
        started REAL NOT NULL,
        ended REAL,
        ending TEXT,
        result TEXT,
        usage TEXT,
        variables TEXT,
        undone INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE steps (
        number INTEGER PRIMARY KEY,
        question INTEGER NOT NULL,
        run TEXT NOT NULL,
        iteration INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data TEXT NOT NULL)""",
    "CREATE INDEX steps_by_question ON steps (question)",
    # As in a trace: see `traces/blobs.py`.
    """CREATE TABLE bodies (
        number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, size INTEGER NOT NULL,
        packed INTEGER NOT NULL DEFAULT 0, bytes BLOB)""",
    "CREATE TABLE pieces (body INTEGER NOT NULL, number INTEGER NOT NULL, packed INTEGER NOT NULL,"
    " bytes BLOB NOT NULL, UNIQUE (body, number))",
)


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One question of a session, as it is recorded."""

    number: int
    run_id: str
    """The run that answers it. Its trace has this id."""

    signature: Mapping[str, str]
    asked: Mapping[str, str]
    """The inputs that came with the question, shortened."""

    started: float
    ended: float | None = None
    ending: str | None = None
    """submitted, extracted, failed or interrupted; None while it runs, and where its process was killed."""

    result: Mapping[str, Any] | None = None
    """The result, as its `to_dict()` returned it."""

    usage: Mapping[str, Any] | None = None
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The variables after it, by name."""

    undone: bool = False

    @property
    def outputs(self) -> Any:
        """The outputs; None where there are none."""
        return (self.result or {}).get("outputs")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a question: `inputs`, `asked`, `reply`, `call` or `cell`. Steps of question 0 are before the first."""

    number: int
    question: int
    run_id: str
    iteration: int
    kind: str
    data: Mapping[str, Any]


def sessions_folder(root: Path | str | None = None) -> Path:
    """Return the folder of the sessions on this machine. It need not exist yet."""
    return (Path(root) if root is not None else home()) / "sessions"


def find_journal(prefix: str, root: Path | str | None = None) -> Path:
    """Return the file of the session whose id begins like this. Raise `UnknownSession` if there is none, or several."""
    paths = [path for path in sorted(sessions_folder(root).glob(f"*{SUFFIX}")) if path.stem.startswith(prefix)]
    paths = [path for path in paths if path.stem == prefix] or paths
    if len(paths) == 1 and prefix:
        return paths[0]
    if not paths or not prefix:
        raise UnknownSession(f"no session has an id that begins with {prefix!r}")
    ids = ", ".join(path.stem for path in paths[:5])
    raise UnknownSession(f"{len(paths)} sessions have ids that begin with {prefix!r}: {ids}; give more characters")


class Journal:
    """The journal of one session, open for reading and, unless `read_only`, for writing."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection, lock: FileLock | None) -> None:
        self.path = path
        self._connection, self._lock = connection, lock
        self._redactor = Redactor()
        self.problem: str | None = None
        """Why steps could not be written, if some could not. The session goes on, but would not survive."""

    @classmethod
    def create(cls, path: Path | None, about: Mapping[str, Any]) -> Journal:
        """Create a journal at a path, or in memory where that is None."""
        if path is None:
            journal = cls(None, _connected(":memory:"), None)
        else:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _locked(path)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            journal = cls(path, _connected(str(path)), lock)
        with journal._transaction() as connection:
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            journal._write_about(about)
        return journal

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Journal:
        """Open a journal. Raise `SessionInUse` where another process writes to it."""
        lock = None if read_only else _locked(path)
        try:
            connection = _connected(f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}", read_only)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            if lock is not None:
                lock.release()
            raise SessionError(f"{path}: not the journal of a session ({error})") from None
        if version != VERSION:
            connection.close()
            if lock is not None:
                lock.release()
            why = "was written by a later rlm" if version > VERSION else "was not finished when it was created"
            raise SessionError(f"{path}: {why} (version {version}; this rlm reads {VERSION})")
        return cls(path, connection, lock)

    @property
    def about(self) -> dict[str, Any]:
        """The id, signature, models, settings and state of the session."""
        rows = self._connection.execute("SELECT name, value FROM about")
        return {name: resolve(json.loads(value), self._fetch) for name, value in rows}

    def update_about(self, **about: Any) -> None:
        """Write parts of what is known about the session."""
        with self._transaction():
            self._write_about(about)

    def questions(self, *, undone: bool = False) -> list[QuestionRecord]:
        """Return the questions in order; with `undone`, also those that were undone."""
        rows = self._connection.execute(
            "SELECT number, run, signature, asked, started, ended, ending, result, usage, variables, undone "
            "FROM questions ORDER BY number"
        ).fetchall()
        records = [
            QuestionRecord(
                number=row[0],
                run_id=row[1],
                signature=self._read(row[2]),
                asked=self._read(row[3]),
                started=row[4],
                ended=row[5],
                ending=row[6],
                result=self._read(row[7]),
                usage=self._read(row[8]),
                variables=self._read(row[9]) or {},
                undone=bool(row[10]),
            )
            for row in rows
        ]
        return [record for record in records if undone or not record.undone]

    def begin_question(self, run_id: str, signature: Mapping[str, str], asked: Mapping[str, str]) -> int:
        """Add a question, and return its number."""
        with self._transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO questions (run, signature, asked, started) VALUES (?, ?, ?, ?)",
                (run_id, self._text(signature), self._text(asked), time.time()),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def update_question(self, number: int, **columns: Any) -> None:
        """Write columns of a question: `run`, `ended`, `ending`, `result`, `usage`, `variables`, `undone`."""
        names = ", ".join(f"{name} = ?" for name in columns)
        with self._transaction() as connection:
            values = [self._text(value) if isinstance(value, Mapping) else value for value in columns.values()]
            connection.execute(f"UPDATE questions SET {names} WHERE number = ?", (*values, number))

    def add_step(self, question: int, run_id: str, iteration: int, kind: str, data: Mapping[str, Any]) -> None:
        """Add a step. It is on the disk when this returns, except after a power failure."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO steps (question, run, iteration, kind, data) VALUES (?, ?, ?, ?, ?)",
                (question, run_id, iteration, kind, self._text(data)),
            )

    def add_inputs(self, question: int, inputs: Mapping[str, Any], *, kind: str = "inputs") -> None:
        """Add `inputs` that the session has from here on, or what was `asked` with a question.

        A value that is not text, bytes or JSON is not stored.
        """
        with self._transaction() as connection:
            stored = encode_inputs(inputs, self._redactor, lambda value: blobs.store(connection, value))
            connection.execute(
                "INSERT INTO steps (question, run, iteration, kind, data) VALUES (?, '', 0, ?, ?)",
                (question, kind, to_json(stored)),
            )

    def steps(self, question: int) -> Iterator[Step]:
        """Yield the steps of a question in order; their long texts are read as they come."""
        rows = self._connection.execute(
            "SELECT number, question, run, iteration, kind, data FROM steps WHERE question = ? ORDER BY number",
            (question,),
        ).fetchall()
        for number, of, run_id, iteration, kind, data in rows:
            value = json.loads(data) if kind in INPUTS else self._read(data)
            yield Step(number, of, run_id, iteration, kind, value)

    def restore_inputs(self, step: Step) -> dict[str, Any]:
        """Return the inputs of a step. Raise `InputNotRecorded` where one could not be stored."""
        return {name: restore_input(name, stored, self._fetch) for name, stored in step.data.items()}

    def forget_other_runs(self, question: int, run_id: str) -> None:
        """Remove the steps of runs that did not get to the end of a question."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM steps WHERE question = ? AND run != ? AND run != ''", (question, run_id))

    def copy(self, path: Path | None, about: Mapping[str, Any]) -> Journal:
        """Return the journal of a session that starts from here."""
        if path is None:
            copied = Journal(None, _connected(":memory:"), None)
        else:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _locked(path)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            copied = Journal(path, _connected(str(path)), lock)
        self._connection.backup(copied._connection)
        copied.update_about(**about)
        return copied

    def size(self) -> int:
        """Return how many bytes the journal takes."""
        pages, size = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * size)

    def close(self) -> None:
        """Close the file and let others write to it."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def _write_about(self, about: Mapping[str, Any]) -> None:
        rows = [(name, self._encoded(value)) for name, value in about.items()]
        self._connection.executemany("INSERT OR REPLACE INTO about (name, value) VALUES (?, ?)", rows)

    def _text(self, data: Mapping[str, Any]) -> str:
        return to_json(encode(data, self._redactor, lambda value: blobs.store(self._connection, value)))

    def _encoded(self, value: Any) -> str:
        return json.dumps(json.loads(self._text({"value": value}))["value"])

    def _read(self, text: str | None) -> Any:
        return None if text is None else resolve(json.loads(text), self._fetch)

    def _fetch(self, digest: str) -> str | bytes:
        return blobs.fetch(self._connection, digest)

    def _transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return transaction(self._connection)


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session on disk, for lists."""

    id: str
    title: str
    task: str
    """The task file; empty for a session that Python code has opened."""

    created: float
    updated: float
    """When its last question began or ended."""

    questions: int
    ending: str | None
    """How the last question ended; `unfinished` where its process was killed or interrupted; None before the first."""

    bytes: int
    in_use: bool
    closed: bool
    path: Path


def list_sessions(root: Path | str | None = None) -> tuple[list[SessionSummary], list[str]]:
    """Return the sessions on this machine, the latest first, and what could not be read."""
    found: list[SessionSummary] = []
    problems: list[str] = []
    for path in sorted(sessions_folder(root).glob(f"*{SUFFIX}")):
        try:
            with contextlib.closing(Journal.open(path, read_only=True)) as journal:
                found.append(_summary(path, journal))
        except (SessionError, sqlite3.Error, ValueError, KeyError) as error:
            problems.append(str(error))
    return sorted(found, key=lambda one: one.updated, reverse=True), problems


def _summary(path: Path, journal: Journal) -> SessionSummary:
    about, questions, used = journal.about, journal.questions(), in_use(path)
    last = questions[-1] if questions else None
    ending = None if last is None else last.ending
    if last is not None and ending in (None, "interrupted"):
        ending = "running" if used and ending is None else "unfinished"
    asked = next(iter(questions[0].asked.values()), "") if questions else ""
    return SessionSummary(
        id=about["id"],
        title=about.get("title") or asked,
        task=str((about.get("task") or {}).get("path") or ""),
        created=about["created"],
        updated=about["created"] if last is None else last.ended or last.started,
        questions=len(questions),
        ending=ending,
        bytes=journal.size(),
        in_use=used,
        closed=bool(about.get("closed")),
        path=path,
    )


def delete_journal(path: Path) -> None:
    """Delete the journal of a session. Raise `SessionInUse` where a process has it open."""
    with contextlib.closing(Journal(path, _connected(":memory:"), _locked(path))):
        for name in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
        _lock_path(path).unlink(missing_ok=True)


def in_use(path: Path) -> bool:
    """Return whether a process has the session open."""
    return is_locked(_lock_path(path))


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _locked(path: Path) -> FileLock:
    lock = FileLock(_lock_path(path), mode=0o600)
    if not lock.acquire(0):
        raise SessionInUse(f"session {path.stem} is open already, in this process or another; close it there first")
    return lock


def _connected(name: str, read_only: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, uri=name.startswith("file:")
    )
    if not read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection
