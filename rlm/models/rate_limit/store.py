"""Stores for shared rate-limit state: in memory, or one file per model.

A file is locked, read, changed and written in some microseconds, and its lock ends with the process that holds it. What
cannot be read is started anew: it only concerns the next minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from ...files import FileLock
from .bucket import OPERATIONS, Bucket

_FIELDS = tuple(field.name for field in dataclasses.fields(Bucket))
_SIZE = 1024
_LOCK_S = 5.0
"""A process that holds a lock for longer has been stopped while it held it. The others continue without the file."""

_logger = logging.getLogger("rlm")


class Store(Protocol):
    """Holds one bucket per key."""

    async def apply(self, key: str, operation: str, *args: Any) -> Any:
        """Apply one of `bucket.OPERATIONS`. Raises `OSError` where the store cannot be reached."""

    def post(self, key: str, operation: str, *args: Any) -> None:
        """Apply an operation if that is possible at once, without its result."""


class MemoryStore:
    """The buckets of one process."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    async def apply(self, key: str, operation: str, *args: Any) -> Any:
        """Apply an operation and return its result."""
        return self.post(key, operation, *args)

    def post(self, key: str, operation: str, *args: Any) -> Any:
        """Apply an operation and return its result."""
        with self._lock:
            bucket, result = OPERATIONS[operation](self._buckets.get(key, Bucket()), time.time(), *args)
            self._buckets[key] = bucket
        return result


class FileStore:
    """The buckets of all processes of a machine, in a small file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def apply(self, key: str, operation: str, *args: Any) -> Any:
        """Apply an operation under the lock of the file. The event loop continues while another process has it."""
        lock, until = self._lock(key), time.monotonic() + _LOCK_S
        while not lock.acquire(timeout=0):
            if time.monotonic() > until:
                raise OSError(f"{lock.path} is locked by another process for more than {_LOCK_S:g} s")
            await asyncio.sleep(random.uniform(0.0005, 0.003))
        try:
            return _update(lock.fileno(), operation, args)
        finally:
            lock.release()

    def post(self, key: str, operation: str, *args: Any) -> None:
        """Apply an operation, unless another process has the file."""
        with contextlib.suppress(OSError):
            lock = self._lock(key)
            if lock.acquire(timeout=0):
                try:
                    _update(lock.fileno(), operation, args)
                finally:
                    lock.release()

    def _lock(self, key: str) -> FileLock:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(self._folder / hashlib.sha256(key.encode()).hexdigest()[:32])


class FallbackStore:
    """Another store, replaced by the memory of this process once it cannot be reached."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def apply(self, key: str, operation: str, *args: Any) -> Any:
        """Apply an operation and return its result."""
        try:
            return await self._store.apply(key, operation, *args)
        except OSError as error:
            _logger.warning("rate limits are no longer shared with other processes: %s", error)
            self._store = MemoryStore()
            return await self._store.apply(key, operation, *args)

    def post(self, key: str, operation: str, *args: Any) -> None:
        """Apply an operation if that is possible at once."""
        self._store.post(key, operation, *args)


def _update(file: int, operation: str, args: tuple[Any, ...]) -> Any:
    now = time.time()
    bucket, result = OPERATIONS[operation](_read(os.pread(file, _SIZE, 0), now), now, *args)
    # One write of constant length: the file is whole whenever the process is killed.
    state = {name: getattr(bucket, name) for name in _FIELDS}
    os.pwrite(file, json.dumps(state).encode().ljust(_SIZE), 0)
    return result


def _read(data: bytes, now: float) -> Bucket:
    try:
        bucket = Bucket(**json.loads(data))
        # After the clock was set back, all callers would wait for the old time.
        return bucket if bucket.updated_at <= now + 1 else Bucket(epoch=bucket.epoch + 1)
    except (ValueError, TypeError):
        return Bucket()
