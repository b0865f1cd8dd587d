"""Where the gauges of models stand, so that everybody who asks one sees the same: in memory, or in files here.

A file is locked, read, changed and written in some microseconds, and the lock goes with the process that has it. What
cannot be read is begun anew: it is only about the next minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from .bucket import VERBS, Gauge

_FIELDS = tuple(one.name for one in dataclasses.fields(Gauge))
_SIZE = 1024
_LOCK_S = 5.0
"""Who has a lock for longer than this has been stopped in the middle: the others go on without it."""


class Board(Protocol):
    """Keeps one gauge for each name."""

    async def do(self, name: str, verb: str, *about: Any) -> Any:
        """Do something to a gauge: one of `gauge.VERBS`. Raises `OSError` where the board cannot be reached."""

    def send(self, name: str, verb: str, *about: Any) -> None:
        """The same without waiting for an answer, if it can be done at once."""


class MemoryBoard:
    """The gauges of one process."""

    def __init__(self) -> None:
        self._gauges: dict[str, Gauge] = {}
        self._lock = threading.Lock()

    async def do(self, name: str, verb: str, *about: Any) -> Any:
        """Done at once."""
        return self.send(name, verb, *about)

    def send(self, name: str, verb: str, *about: Any) -> Any:
        """The same."""
        with self._lock:
            gauge, answer = VERBS[verb](self._gauges.get(name, Gauge()), time.time(), *about)
            self._gauges[name] = gauge
        return answer


class FileBoard:
    """The gauges of all processes of a machine, a small file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def do(self, name: str, verb: str, *about: Any) -> Any:
        """Under the file's lock. The event loop goes on while another process has it."""
        with self._open(name) as file:
            until = time.monotonic() + _LOCK_S
            while not _lock(file):
                if time.monotonic() > until:
                    raise OSError(f"{self._folder}: another process keeps a lock")
                await asyncio.sleep(random.uniform(0.0005, 0.003))
            return _change(file, verb, about)

    def send(self, name: str, verb: str, *about: Any) -> None:
        """Left undone where another process has the file."""
        with contextlib.suppress(OSError), self._open(name) as file:
            if _lock(file):
                _change(file, verb, about)

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[int]:
        # Opened each time: a process that was forked would share the lock of the one it came from.
        path = self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            file = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(path, flags, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _change(file: int, verb: str, about: tuple[Any, ...]) -> Any:
    now = time.time()
    gauge, answer = VERBS[verb](_read(os.pread(file, _SIZE, 0), now), now, *about)
    # All of one length and in one piece: what is written last is whole, whoever dies.
    written = {name: getattr(gauge, name) for name in _FIELDS}
    os.pwrite(file, json.dumps(written).encode().ljust(_SIZE), 0)
    return answer


def _read(data: bytes, now: float) -> Gauge:
    try:
        gauge = Gauge(**json.loads(data))
        # A clock that was set back would make everybody wait for it.
        return gauge if gauge.seen_at <= now + 1 else Gauge(epoch=gauge.epoch + 1)
    except (ValueError, TypeError):
        return Gauge()
