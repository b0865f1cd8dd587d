"""Where traces are, and who writes them: a folder of databases, one writer a file, known by a lock beside it."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from ..files import FileLock, is_locked
from ..files import home as default_home


def traces_folder(home: Path | str | None = None) -> Path:
    """Return the directory of the databases."""
    return (default_home() if home is None else Path(home)).absolute() / "traces"


def databases(folder: Path) -> list[Path]:
    """List the databases, the newest first: names begin with the time of creation."""
    return sorted(folder.glob("*.db"), reverse=True)


def create_database(folder: Path) -> Path:
    """Create an empty file with a unique name that only its owner can read."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    path = folder / f"{stamp}-{os.getpid()}-{secrets.token_hex(4)}.db"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return path


def lock_database(path: Path, *, timeout: float = 0.0) -> FileLock | None:
    """Return the lock on writing to a database; None if another writer holds it, or the database was removed."""
    lock = FileLock(lock_path(path))
    if not lock.acquire(timeout):
        return None
    if path.exists():
        return lock
    lock.path.unlink(missing_ok=True)  # removed between the listing and the lock
    lock.release()
    return None


def writer_is_alive(path: Path) -> bool:
    """Return whether a process that writes to this database is alive."""
    return is_locked(lock_path(path))


def lock_path(path: Path) -> Path:
    """Return the lock file of a database."""
    return path.with_suffix(".lock")
