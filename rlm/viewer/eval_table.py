"""An evaluation as the page asks for it: its samples as rows, and the summary of them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..evals.log import Entry, EvalLog

_MOST_CHARS = 300
_ABOUT = ("suites", "lengths", "count", "seed", "epochs", "baseline", "models", "versions", "started")


class SuiteTable:
    """The table of one log. Any thread may ask for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int], dict[str, Any]] | None = None

    def table(self) -> dict[str, Any]:
        """The log as it is now. Raises `LogError`."""
        from ..evals.log import SAMPLES, read_log

        try:
            found = (self._folder / SAMPLES).stat()
            state = (found.st_mtime_ns, found.st_size)
        except OSError:
            state = (0, 0)
        with self._lock:
            if self._known is None or self._known[0] != state:
                self._known = (state, _table(read_log(self._folder)))
            return self._known[1]


def _table(log: EvalLog) -> dict[str, Any]:
    from ..evals.summary import summarize

    return {
        "name": log.name,
        "about": {name: log.header.get(name) for name in _ABOUT},
        "total": log.expected,
        "summary": summarize(log).to_dict(),
        "rows": [_row(entry) for entry in log.entries],
    }


def _row(entry: Entry) -> dict[str, Any]:
    """One sample, with the names that a run has in the list of runs."""
    usage = entry.usage
    return {
        "id": entry.run_id,
        "sample": entry.sample_id,
        "suite": entry.suite,
        "length": entry.length,
        "epoch": entry.epoch,
        "score": entry.score,
        "scores": entry.scores,
        "ending": entry.ending.lower(),
        "confidence": entry.confidence,
        "answer": _short(entry.outputs),
        "expected": _short(entry.expected),
        "reason": entry.error or entry.reason,
        "tokens": (usage.get("tokens_in") or 0) + (usage.get("tokens_out") or 0),
        "cost_usd": usage.get("cost_usd"),
        "duration": entry.seconds,
    }


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = ", ".join(f"{name}: {json.dumps(one, ensure_ascii=False)}" for name, one in value.items())
    return text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "…"
