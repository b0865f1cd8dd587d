"""Runs by id, with their databases kept open between requests."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..traces import RunRecord, Runs

_SIZE = 256


class RunCache:
    """The runs in one home. Any thread may use it."""

    def __init__(self, home: Path | str | None = None) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, RunRecord] = OrderedDict()

    def runs(self) -> Runs:
        """Return all runs."""
        from ..traces import load

        return load(self._home)

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes when a run does, or its writer ends."""
        from ..traces.paths import databases, traces_folder, writer_is_alive
        from ..traces.writer import flush_writers

        flush_writers(self._home)
        files = []
        for path in databases(traces_folder(self._home)):
            sizes = [_size(path), _size(path.with_name(f"{path.name}-wal"))]
            files.append((path.name, writer_is_alive(path), *sizes))
        return tuple(files)

    def run(self, run_id: str) -> RunRecord:
        """Return the current state of one run by its id or a prefix of it. Raises `UnknownRun`."""
        from ..traces import UnknownRun

        with self._lock:
            cached = self._runs.get(run_id)
        if cached is not None and cached.file.path.exists():
            try:
                run = replace(cached.reload(), resumed_by=cached.resumed_by)
            except (UnknownRun, sqlite3.Error):
                pass  # it was pruned: search all databases
            else:
                if run.ending != "unfinished":  # otherwise another run may have continued it by now
                    return self._add(run)
        return self._add(self.runs().run(run_id))

    def _add(self, run: RunRecord) -> RunRecord:
        with self._lock:
            self._runs[run.id] = run
            self._runs.move_to_end(run.id)
            while len(self._runs) > _SIZE:
                self._runs.popitem(last=False)
        return run


def _size(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return (stat.st_mtime_ns, stat.st_size) if stat.st_size else (0, 0)  # a reader creates an empty log
