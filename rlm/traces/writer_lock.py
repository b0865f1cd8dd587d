"""The lock file beside each trace database: it admits one writer at a time, and shows readers whether it is alive."""

from __future__ import annotations

from pathlib import Path

from ..files import FileLock, is_locked


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
