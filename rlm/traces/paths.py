"""Where traces are, and who writes there: a directory of databases, one writer a file, told by a lock beside it.

The lock is the operating system's and goes away with the process, however that ends. It is a POSIX record lock, which
a forked child does not inherit. Closing any descriptor of such a file would give the lock up, so a process never opens
the lock files that it holds itself a second time.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from pathlib import Path

from ..paths import home as default_home

_held: dict[Path, int] = {}
"""The databases that this process writes, with its process id: a forked child holds nothing."""


def folder(home: Path | str | None = None) -> Path:
    """The directory of the databases."""
    return (default_home() if home is None else Path(home)).absolute() / "traces"


def databases(folder: Path) -> list[Path]:
    """All databases, the newest first: names begin with the time."""
    return sorted(folder.glob("*.db"), reverse=True)


def new_database(folder: Path) -> Path:
    """A new, empty file with a name of its own, for its owner's eyes only."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    path = folder / f"{stamp}-{os.getpid()}-{secrets.token_hex(4)}.db"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return path


class WriterLock:
    """The right to write to one database, for this process, until `release` or the process's end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock if nobody has it."""
        if _held.get(self.path) == os.getpid():
            return False
        descriptor = os.open(lock_path(self.path), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the database, and the lock file with it.
            current = os.stat(lock_path(self.path)).st_ino == os.fstat(descriptor).st_ino and self.path.exists()
        except OSError:
            current = False
        if not current:
            os.close(descriptor)
            return False
        _held[self.path] = os.getpid()
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give it up."""
        if self._descriptor is not None:
            _held.pop(self.path, None)
            os.close(self._descriptor)
            self._descriptor = None


def writer_lives(path: Path) -> bool:
    """Whether a process that writes this database is alive."""
    if _held.get(path) == os.getpid():
        return True
    try:
        descriptor = os.open(lock_path(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_path(path: Path) -> Path:
    """The lock file of a database."""
    return path.with_suffix(".lock")
