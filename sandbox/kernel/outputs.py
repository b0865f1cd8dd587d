"""The folder for what a cell writes for its caller: what is in it, piece by piece, and the figures of a cell.

The host reads nothing of this folder itself: it asks for names and pieces, and takes what it is sent for what it is,
bytes from a kernel. So no link, device or name in here leads anywhere on the host.
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

MAX_LISTED = 10_000
MAX_PIECE = 2 << 20
MAX_FIGURES = 20
"""Of one cell."""


class OutFolder:
    """The folder of one kernel."""

    def __init__(self, path: str) -> None:
        self.path = path

    def is_empty(self) -> bool:
        """Return whether nothing is in it."""
        try:
            with os.scandir(self.path) as entries:
                return next(entries, None) is None
        except OSError:
            return True

    def listing(self) -> list[tuple[str, int]]:
        """Return the names and sizes of the regular files in it, those in folders below included."""
        return sorted(self._files())

    def read(self, name: str, offset: int, size: int) -> str:
        """Return a piece of a file, in base64."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.join(self.path, name), flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{name} is not a regular file")
            return base64.b64encode(os.pread(descriptor, min(size, MAX_PIECE), offset)).decode("ascii")
        finally:
            os.close(descriptor)

    def keep_figures(self, cell: int) -> list[str]:
        """Write the figures that are open to files, close them, and return the names; nothing without matplotlib."""
        pyplot: Any = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return []
        names = []
        for number, figure in enumerate(pyplot.get_fignums()[:MAX_FIGURES], 1):
            name = f"figure-{cell}{f'-{number}' if number > 1 else ''}.png"
            with contextlib.suppress(OSError):  # the folder is full
                pyplot.figure(figure).savefig(os.path.join(self.path, name), format="png")
                names.append(name)
        pyplot.close("all")
        return names

    def _files(self) -> Iterator[tuple[str, int]]:
        remaining, count = [""], 0
        while remaining:
            place = remaining.pop()
            with contextlib.suppress(OSError), os.scandir(os.path.join(self.path, place)) as entries:
                for entry in entries:
                    count += 1
                    if count > MAX_LISTED:
                        return
                    name = f"{place}/{entry.name}" if place else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        remaining.append(name)
                    elif entry.is_file(follow_symlinks=False):
                        yield name, entry.stat(follow_symlinks=False).st_size
