"""How much memory a model could have here."""

from __future__ import annotations

import os
from pathlib import Path

SPARE = 256 * 1024 * 1024
"""What a model needs beside its weights, at least."""


def free_memory() -> int | None:
    """Bytes that new work can have on this machine, within the limits of its container; None where nobody says."""
    known = [value for value in (_available(), _container_room()) if value is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        try:  # macOS gives back what files took, so that all of it counts
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError):
            return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _container_room() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        stats = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return None
    # Pages of files are counted as used there, and are given back when something else needs them.
    return None if most == "max" else int(most) - used + int(stats.get("inactive_file", 0))
