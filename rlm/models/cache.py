"""Answers of models on disk, by what was asked: a question that was answered once need not be paid for again.

Only a hash of the question is kept, and no key in any form. Where one run asks the same question several times, each
time has an answer of its own, so that samples stay samples. Models that run in this process are not kept: they cost
nothing, and what they answer may hang on more than the question.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args
from urllib.parse import urlsplit

from ..files import FileLock
from .requests import CLIENT

Mode = Literal["off", "read", "read-write"]
MODES: tuple[str, ...] = get_args(Mode)

_FORMAT = 1
# How a call is made; nothing that changes what is answered.
_NOT_ASKED = CLIENT | {"cache", "num_retries", "prompt_cache", "prompt_cache_key", "prompt_cache_retention"}
# As `budgets.Remaining` says it. Iterations and calls that are left stay: they count the same each time.
_LEFT = re.compile(r"(\d+ LLM calls)(?:, \d+ seconds)?(?:, [\d,]+ tokens)?(?:, \$[\d.]+)? left")
_BUSY_S = 20.0
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    question BLOB NOT NULL, number INTEGER NOT NULL, answer TEXT NOT NULL, made REAL NOT NULL,
    PRIMARY KEY (question, number)
) WITHOUT ROWID
"""

_logger = logging.getLogger("rlm")
_asked: contextvars.ContextVar[Counter[bytes] | None] = contextvars.ContextVar("rlm_answers_asked", default=None)
T = TypeVar("T")


@contextlib.contextmanager
def one_run() -> Iterator[None]:
    """Count what is asked inside the block as one run; in a block inside it, the counting goes on."""
    if _asked.get() is not None:
        yield
        return
    token = _asked.set(Counter())
    try:
        yield
    finally:
        _asked.reset(token)


def question_of(lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: Mapping[str, Any]) -> bytes:
    """A hash of all that an answer hangs on: the model and where it is, what it is told, and its settings."""
    given = {**(getattr(lm, "kwargs", None) or {}), **options}
    settings = {name: value for name, value in given.items() if name not in _NOT_ASKED and value is not None}
    parts = urlsplit(str(given.get("api_base") or given.get("base_url") or ""))
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    kind = getattr(lm, "model_type", None)
    told = [(role, timeless(text)) for role, text in turns]
    asked = [_FORMAT, str(lm.model), kind, where, timeless(system or ""), told, settings]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=_plain).encode()).digest()


def timeless(text: str) -> str:
    """A text without how much time, tokens and money are left: they differ each time, and the question is the same."""
    return _LEFT.sub(r"\1 left", text)


def next_number(question: bytes) -> int:
    """How often this run has asked this question before; outside of a run each time is the first."""
    asked = _asked.get()
    if asked is None:
        return 0
    asked[question] += 1
    return asked[question] - 1


def not_answered(question: bytes) -> None:
    """The question failed: the next time is this time again."""
    asked = _asked.get()
    if asked is not None and asked[question] > 0:
        asked[question] -= 1


class AnswerCache:
    """Answers in a SQLite file that any number of processes read and write. What goes wrong with it stops nothing."""

    def __init__(self, path: str | Path, mode: Mode) -> None:
        if mode not in MODES:
            raise ValueError(f"a cache is {', '.join(MODES)}; not {mode!r}")
        self.path, self.mode = Path(path), mode
        self._locks = {"reading": threading.Lock(), "writing": threading.Lock()}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._inode: int | None = None
        self._process = os.getpid()
        self._complained = False

    def find(self, question: bytes, number: int) -> dict[str, Any] | None:
        """The answer on disk, if there is one."""
        if self.mode == "off" or (self.mode == "read" and not self.path.exists()):
            return None

        def read(connection: sqlite3.Connection) -> Any:
            query = "SELECT answer FROM answers WHERE question = ? AND number = ?"
            return connection.execute(query, (question, number)).fetchone()

        row = self._guarded("reading", read)
        try:
            found = json.loads(row[0]) if row is not None else None
        except ValueError:
            return None
        return found if isinstance(found, dict) and isinstance(found.get("text"), str) else None

    def keep(self, question: bytes, number: int, answer: Mapping[str, Any]) -> None:
        """Put an answer on disk. May wait for other processes: not for an event loop."""
        if self.mode != "read-write":
            return
        row = (question, number, json.dumps(answer, ensure_ascii=True), time.time())

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

        self._guarded("writing", write)

    def close(self) -> None:
        """Close the file."""
        for purpose in self._locks:
            with self._locks[purpose]:
                self._close(purpose)

    def _guarded(self, purpose: str, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do it; once more with a new file if this one is broken; give up on it, in words, if that does not help."""
        for attempt in (1, 2):
            try:
                with self._locks[purpose]:
                    return work(self._connection(purpose))
            except (sqlite3.Error, OSError) as error:
                if attempt == 1 and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
                    self._set_aside(error)
                elif not self._complained:
                    self._complained = True
                    _logger.warning("%s: %s answers does not work, going on without: %s", self.path, purpose, error)
                    return None
                else:
                    return None
        return None

    def _connection(self, purpose: str) -> sqlite3.Connection:
        """One connection each for reading and for writing: who reads does not wait for who writes."""
        if self._process != os.getpid():  # forked: what was opened belongs to the parent
            self._connections, self._process = {}, os.getpid()
        if purpose not in self._connections:
            self._connections[purpose] = self._opened()
        return self._connections[purpose]

    def _close(self, purpose: str) -> None:
        connection = self._connections.pop(purpose, None)
        if connection is not None:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self.mode == "read":
            self._inode = os.stat(self.path).st_ino
            where = f"{self.path.absolute().as_uri()}?mode=ro"
            return sqlite3.connect(where, uri=True, timeout=_BUSY_S, check_same_thread=False)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._inode = os.stat(self.path).st_ino
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_TABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, error: Exception) -> None:
        """Move a file that cannot be read out of the way, unless another process has done it."""
        self.close()
        with FileLock(Path(f"{self.path}.lock")):
            if not self.path.exists() or os.stat(self.path).st_ino != self._inode:
                return
            aside = f"{self.path}.broken-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
            os.replace(self.path, aside)
        _logger.warning("%s cannot be read (%s): it was moved to %s, and a new one is begun", self.path, error, aside)


def _plain(value: Any) -> Any:
    """A setting that JSON does not know: a type by its schema, anything else by its looks."""
    schema = getattr(value, "model_json_schema", None)
    return schema() if callable(schema) else repr(value)
