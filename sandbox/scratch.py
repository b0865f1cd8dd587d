"""Scratch directories that are ordinary directories: how full one is, and how it is removed again.

In a private root the scratch is a file system of its own size and none of this is needed. Elsewhere it is flat:
Landlock lets code make and write files there, not remove or rename them, and not make directories, so that a look at
its names sees everything. On macOS it may hold directories too, and what is in them is not counted.
"""

from __future__ import annotations

import contextlib
import os
import shutil

from .limits import Limits


def exceeds(directory: str, limits: Limits) -> str | None:
    """What is too much in the directory, in words; None while it holds no more than it may."""
    size = 0
    for count, entry in enumerate(_entries(directory), start=1):
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
