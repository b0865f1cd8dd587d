"""The memory and the processors that a model can use on this machine."""

from __future__ import annotations

import os
from pathlib import Path

SPARE = 256 * 1024 * 1024
"""Bytes that a model needs beside its weights, at least."""


def free_memory() -> int | None:
    """Return the free bytes on this machine, within the limits of its container; None where that is unknown."""
    known = [value for value in (_available(), _container_room()) if value is not None]
    return min(known, default=None)


def default_threads() -> int:
    """Return the number of threads for computing: half the logical processors, which usually is the number of cores.

    The threads wait for each other at every layer: with one on each processor, any other busy process slows them all.
    """
    return max(1, (os.cpu_count() or 2) // 2)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        try:  # macOS frees memory that caches files, so all of it counts
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
    # Cached pages of files count as used there, and are freed when memory is needed.
    return None if most == "max" else int(most) - used + int(stats.get("inactive_file", 0))
