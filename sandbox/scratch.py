"""How full a scratch directory is, where no file system of its own keeps the limit."""

from __future__ import annotations

import os

from .limits import Limits


def exceeds(directory: str, limits: Limits) -> str | None:
    """What is too much in the directory, in words; None while it holds no more than it may."""
    size = count = 0
    todo = [directory]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > limits.file_count:
                        return f"the scratch directory may hold {limits.file_count:,} files"
                    if size > limits.file_bytes:
                        return f"the scratch directory may hold {limits.file_bytes:,} bytes"
        except OSError:
            continue  # it is being changed while we look
    return None
