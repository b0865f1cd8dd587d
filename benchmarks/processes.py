"""What /proc says about processes, their memory and their descendants; and which processors they keep to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def pss(pid: int) -> int:
    """Proportional set size in bytes: pages that n processes share count for one n-th each."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss line")


def processor_seconds(pids: Iterable[int]) -> float:
    """The processor time that the threads of these processes have used."""
    used = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # it has just ended
                used += int(thread.read_text().split()[0])
    return used / 1e9


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


def keep_to_last() -> None:
    """Keep this process to the last processor, if there are several."""
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, usable[-1:])


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Leave the last processor, if there are several, to the process that keeps to it."""
    usable = sorted(os.sched_getaffinity(0))
    try:
        _keep_to(usable[:-1] or usable)
        yield
    finally:
        _keep_to(usable)


def _keep_to(usable: list[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), usable)
