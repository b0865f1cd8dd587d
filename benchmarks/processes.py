"""What /proc says about processes: their memory and their descendants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def pss(pid: int) -> int:
    """Proportional set size in bytes: pages that n processes share count for one n-th each."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss line")


def with_descendants(roots: Iterable[int]) -> set[int]:
    """The processes themselves, their children, and so on."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        found.add(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                waiting.extend(int(child) for child in children.read_text().split())
            except OSError:
                continue  # the thread or the process has just ended
    return found
