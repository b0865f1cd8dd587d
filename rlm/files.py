"""The folder for rlm's own files, and files that several processes write: locks, atomic replacement, transactions.

Lock and replacement survive a kill at any point: the operating system releases the lock of a process that ends, and a
replaced file holds either its old content or all of the new. The package `filelock` truncates the file that it locks,
so it cannot lock a file that holds data.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import sqlite3

_POLL_S = 0.01
_ABANDONED_S = 3600.0
"""A temporary file that was not written to for this long belongs to a process that was killed."""

_fork_guard = threading.Lock()
_locks: set[FileLock] = set()
"""Locks with an open descriptor. A forked child closes its copies: else the lock would outlive its owner."""


class FileLock:
    """An exclusive lock on a file, for this object alone: other objects, threads and processes are locked out.

    The file is created where it is missing; its content is not touched. As a context manager, wait for the lock.
    """

    def __init__(self, path: Path, *, mode: int = 0o600, append: bool = False) -> None:
        """`mode` is that of a new file; with `append`, writes to the descriptor go to the end of the file."""
        self.path = path
        self._mode = mode
        self._flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | (os.O_APPEND if append else 0)
        self._descriptor: int | None = None

    def acquire(self, timeout: float | None = None) -> bool:
        """Return whether the lock was acquired within `timeout` seconds; None waits without a limit, 0 not at all.

        Raise `OSError` where the file cannot be opened, or its file system has no locks.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._attempt(wait=deadline is None):
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(left, _POLL_S))
        return True

    def release(self) -> None:
        """Release the lock. Without effect where it is not held, as in a forked child."""
        with _fork_guard:
            _locks.discard(self)
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def fileno(self) -> int:
        """Return the descriptor of the locked file, open for reading and writing."""
        if self._descriptor is None:
            raise ValueError(f"{self.path} is not locked by this process")
        return self._descriptor

    def is_current(self) -> bool:
        """Return whether the locked file is still the one at its path, and was neither removed nor replaced."""
        with contextlib.suppress(OSError):
            return self._descriptor is not None and os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        return False

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _attempt(self, *, wait: bool) -> bool:
        if self._descriptor is not None:
            raise RuntimeError(f"{self.path} is locked by this object already")
        while True:
            with _fork_guard:
                self._descriptor = os.open(self.path, self._flags, self._mode)
                _locks.add(self)
            acquired = False
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                acquired = self.is_current()  # the previous owner may have removed or replaced the file
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return False
                raise
            finally:
                if not acquired:
                    self.release()
            if acquired:
                return True


def is_locked(path: Path) -> bool:
    """Return whether any process, this one included, has the lock on a file; False where there is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o666, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` that replaces it at the end of the block; an exception discards it.

    A symbolic link stays one: the file that it names is replaced. A file that exists keeps its permissions; a new one
    gets `mode`, less the umask. `durable` waits until content and name are on the disk.
    """
    target = path.resolve()
    _remove_abandoned(target)
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(descriptor, target.stat().st_mode & 0o777)
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(target.parent)


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o666, durable: bool = True) -> None:
    """Write a whole file, or leave the old one; see `replacing`."""
    data = content.encode() if isinstance(content, str) else content
    with replacing(path, mode=mode, durable=durable) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where its file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # the content of the file is on the disk all the same
    finally:
        os.close(descriptor)


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of writers that were killed."""
    prefix = f".{target.name[:200]}."
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S:
                        os.unlink(entry.path)


def _release_in_child() -> None:
    for lock in _locks:
        if lock._descriptor is not None:
            os.close(lock._descriptor)
            lock._descriptor = None
    _locks.clear()
    _fork_guard.release()


os.register_at_fork(before=_fork_guard.acquire, after_in_parent=_fork_guard.release, after_in_child=_release_in_child)


def home() -> Path:
    """Return `RLM_HOME`, or rlm's folder in the platform's place for user data. It need not exist yet."""
    own = os.environ.get("RLM_HOME")
    if own:
        return Path(own).expanduser()
    import platformdirs

    return platformdirs.user_data_path("rlm", appauthor=False)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Write to a database inside the block: all of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
