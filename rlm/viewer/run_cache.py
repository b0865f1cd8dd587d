"""Runs as the page asks for them: found by id, with their files kept open from one request to the next."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..traces import RunRecord, Runs

_KEPT = 256


class Shelf:
    """All runs in one home. Any thread may use it."""

    def __init__(self, home: Path | str | None = None) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, RunRecord] = OrderedDict()

    def runs(self) -> Runs:
        """All runs as they are now."""
        from ..traces import load

        return load(self._home)

    def run(self, run_id: str) -> RunRecord:
        """One run as it is now, by its whole id or the beginning of it. Raises `UnknownRun`."""
        from ..traces import UnknownRun

        with self._lock:
            kept = self._kept.get(run_id)
        if kept is not None and kept.file.path.exists():
            try:
                return self._keep(kept.reload())
            except (UnknownRun, sqlite3.Error):
                pass  # it was pruned: look in all of them
        return self._keep(self.runs().run(run_id))

    def _keep(self, run: RunRecord) -> RunRecord:
        with self._lock:
            self._kept[run.id] = run
            self._kept.move_to_end(run.id)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return run
