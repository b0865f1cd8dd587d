"""Where the gauges of models stand, so that everybody who asks one sees the same: in memory, or in files here.

A file is locked, read, changed and written in some microseconds, and the lock goes with the process that has it. What
cannot be read is begun anew: it is only about the next minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from ...files import FileLock
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
        lock, until = self._lock(name), time.monotonic() + _LOCK_S
        while not lock.acquire(timeout=0):
            if time.monotonic() > until:
                raise OSError(f"{lock.path} is locked by another process for more than {_LOCK_S:g} s")
            await asyncio.sleep(random.uniform(0.0005, 0.003))
        try:
            return _change(lock.fileno(), verb, about)
        finally:
            lock.release()

    def send(self, name: str, verb: str, *about: Any) -> None:
        """Left undone where another process has the file."""
        with contextlib.suppress(OSError):
            lock = self._lock(name)
            if lock.acquire(timeout=0):
                try:
                    _change(lock.fileno(), verb, about)
                finally:
                    lock.release()

    def _lock(self, name: str) -> FileLock:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(self._folder / hashlib.sha256(name.encode()).hexdigest()[:32])


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
