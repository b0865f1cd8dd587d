"""Runs by id, with their databases kept open between requests."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

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

    def run(self, run_id: str) -> RunRecord:
        """Return the current state of one run by its id or a prefix of it. Raises `UnknownRun`."""
        from ..traces import UnknownRun

        with self._lock:
            cached = self._runs.get(run_id)
        if cached is not None and cached.file.path.exists():
            try:
                return self._add(cached.reload())
            except (UnknownRun, sqlite3.Error):
                pass  # it was pruned: search all databases
        return self._add(self.runs().run(run_id))

    def _add(self, run: RunRecord) -> RunRecord:
        with self._lock:
            self._runs[run.id] = run
            self._runs.move_to_end(run.id)
            while len(self._runs) > _SIZE:
                self._runs.popitem(last=False)
        return run
