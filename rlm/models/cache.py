"""The response cache: responses of models on disk, by a hash of the request.

The file has hashes of requests, and keys in no form. Where a run makes the same request several times, each occurrence
has a response of its own, so that samples stay samples. Responses of models in this process are not cached: they cost
nothing, and may depend on more than the request.
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
from .profile import settings_of
from .requests import CLIENT

Mode = Literal["off", "read", "read-write"]
MODES: tuple[str, ...] = get_args(Mode)

_FORMAT = 1
# Settings of the call that do not change the response.
_NOT_IN_HASH = CLIENT | {"cache", "num_retries", "prompt_cache", "prompt_cache_key", "prompt_cache_retention"}
# The text of `budgets.Remaining`. Iterations and calls stay: they are the same in each run.
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
_occurrences: contextvars.ContextVar[Counter[bytes] | None] = contextvars.ContextVar(
    "rlm_cache_occurrences", default=None
)
T = TypeVar("T")


@contextlib.contextmanager
def run_scope() -> Iterator[None]:
    """Count equal requests inside the block as occurrences of one run. Nested blocks continue the outer count."""
    if _occurrences.get() is not None:
        yield
        return
    token = _occurrences.set(Counter())
    try:
        yield
    finally:
        _occurrences.reset(token)


def request_hash(lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: Mapping[str, Any]) -> bytes:
    """Return a hash of everything that a response depends on: model, address, messages and settings."""
    given = {**settings_of(lm), **options}
    settings = {name: value for name, value in given.items() if name not in _NOT_IN_HASH and value is not None}
    parts = urlsplit(str(given.get("api_base") or given.get("base_url") or ""))
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    kind = getattr(lm, "model_type", None)
    messages = [(role, without_remaining_budget(text)) for role, text in turns]
    content = [_FORMAT, str(lm.model), kind, where, without_remaining_budget(system or ""), messages, settings]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).digest()


def without_remaining_budget(text: str) -> str:
    """Remove the time, tokens and money that are left of a budget, which differ from run to run."""
    return _LEFT.sub(r"\1 left", text)


def next_occurrence(key: bytes) -> int:
    """Count a request, and return how often this run made it before; 0 outside of a run."""
    counts = _occurrences.get()
    if counts is None:
        return 0
    counts[key] += 1
    return counts[key] - 1


def forget_occurrence(key: bytes) -> None:
    """Do not count a request that failed."""
    counts = _occurrences.get()
    if counts is not None and counts[key] > 0:
        counts[key] -= 1


class ResponseCache:
    """Responses in a SQLite file, for any number of processes. Calls continue without it when it fails."""

    def __init__(self, path: str | Path, mode: Mode) -> None:
        if mode not in MODES:
            raise ValueError(f"the cache mode is one of {', '.join(MODES)}, not {mode!r}")
        self.path, self.mode = Path(path), mode
        self._locks = {"reading": threading.Lock(), "writing": threading.Lock()}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._inode: int | None = None
        self._process = os.getpid()
        self._complained = False

    def get(self, key: bytes, occurrence: int) -> dict[str, Any] | None:
        """Return the cached response, if there is one."""
        if self.mode == "off" or (self.mode == "read" and not self.path.exists()):
            return None

        def read(connection: sqlite3.Connection) -> Any:
            query = "SELECT answer FROM answers WHERE question = ? AND number = ?"
            return connection.execute(query, (key, occurrence)).fetchone()

        row = self._try("reading", read)
        try:
            response = json.loads(row[0]) if row is not None else None
        except ValueError:
            return None
        return response if isinstance(response, dict) and isinstance(response.get("text"), str) else None

    def put(self, key: bytes, occurrence: int, response: Mapping[str, Any]) -> None:
        """Store a response. Blocks while other processes write: call it in a thread."""
        if self.mode != "read-write":
            return
        row = (key, occurrence, json.dumps(response, ensure_ascii=True), time.time())

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

        self._try("writing", write)

    def close(self) -> None:
        """Close the file."""
        for purpose in self._locks:
            with self._locks[purpose]:
                self._close(purpose)

    def _try(self, purpose: str, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run an operation, a second time with a new file if this one is damaged. Warn once if it fails."""
        for attempt in (1, 2):
            try:
                with self._locks[purpose]:
                    return work(self._connection(purpose))
            except (sqlite3.Error, OSError) as error:
                if attempt == 1 and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
                    self._set_aside(error)
                elif not self._complained:
                    self._complained = True
                    _logger.warning(
                        "%s: %s the response cache failed, continuing without it: %s", self.path, purpose, error
                    )
                    return None
                else:
                    return None
        return None

    def _connection(self, purpose: str) -> sqlite3.Connection:
        """Return the connection for reading or for writing: readers do not wait for writers."""
        if self._process != os.getpid():  # after a fork, the connections belong to the parent
            self._connections, self._process = {}, os.getpid()
        if purpose not in self._connections:
            self._connections[purpose] = self._open()
        return self._connections[purpose]

    def _close(self, purpose: str) -> None:
        connection = self._connections.pop(purpose, None)
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
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
        """Rename a damaged file, unless another process has done so."""
        self.close()
        with FileLock(Path(f"{self.path}.lock")):
            if not self.path.exists() or os.stat(self.path).st_ino != self._inode:
                return
            aside = f"{self.path}.broken-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
            os.replace(self.path, aside)
        _logger.warning("%s is damaged (%s): it was renamed to %s, and a new one is created", self.path, error, aside)


def _plain(value: Any) -> Any:
    """Encode a setting that is not JSON: a type by its schema, anything else by its `repr`."""
    schema = getattr(value, "model_json_schema", None)
    return schema() if callable(schema) else repr(value)
