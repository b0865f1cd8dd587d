"""Scratch directories that are ordinary directories: made, watched for how full they are, and removed again.

In a private root the scratch is a file system of its own size and none of this is needed. Elsewhere it is flat:
Landlock lets code make and write files there, not remove or rename them, and not make directories, so that a look at
its names sees everything. On macOS it may hold directories too, and what is in them is not counted.

Whoever uses a directory holds a lock on it. One without a holder has been left by a process that was killed. (Code in a
session cannot take such a lock: seccomp.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .limits import Limits

OUT = "out"
"""The name of the folder in it for what code writes for its caller."""

_PREFIX = "rlm-scratch-"
_SWEEP_AGE = 60.0
"""A directory that is younger may not have its lock yet."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A directory in use."""

    path: str
    lock: int

    def make_out(self, owner: int | None) -> None:
        """Make the folder for what code writes for its caller. Code can make no other where the directory is flat."""
        path = os.path.join(self.path, OUT)
        os.mkdir(path, 0o700)
        if owner is not None:
            os.chown(path, owner, owner)

    def remove(self) -> None:
        """Remove it and all that is in it."""
        remove(self.path)
        os.close(self.lock)


def make() -> Scratch:
    """Make a directory whose name has the process id of its owner, and lock it."""
    path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return Scratch(path, lock)


def sweep(owner: int | None = None) -> None:
    """Remove the directories that nobody holds: those of one owner, or all that are not new."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{'[0-9]*' if owner is None else owner}-*"):
        try:
            if owner is None and time.time() - path.stat(follow_symlinks=False).st_mtime < _SWEEP_AGE:
                continue
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # another user's, or gone
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(str(path))
        except OSError:
            continue  # somebody uses it
        finally:
            os.close(held)


def exceeds(directory: str, limits: Limits) -> str | None:
    """Return what is too much in the directory, in words; None while it holds no more than it may."""
    size = 0
    entries = [entry for entry in _entries(directory) if entry.name != OUT]
    for count, entry in enumerate([*entries, *_entries(os.path.join(directory, OUT))], start=1):
        with contextlib.suppress(FileNotFoundError):
            size += entry.stat(follow_symlinks=False).st_blocks * 512
        if count > limits.file_count:
            return f"the scratch directory may hold {limits.file_count:,} files"
        if size > limits.file_bytes:
            return f"the scratch directory may hold {limits.file_bytes:,} bytes"
    return None


def remove(directory: str) -> None:
    """Remove the directory and all that is in it."""
    # Python 3.11 walks down by recursion, and code on macOS can make directories as deep as it likes.
    with contextlib.suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []
