"""The log of an evaluation as a table: its samples as rows, and their summary."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..text import shorten

if TYPE_CHECKING:
    from ..evals.log import EvalLog, LogEntry

_MAX_CHARS = 300
_HEADER_FIELDS = ("suites", "lengths", "count", "seed", "epochs", "baseline", "models", "versions", "started")
_TOTALS = ("score", "endings", "cost_usd", "seconds", "tokens_in", "tokens_out")


class EvaluationTable:
    """The table of one log, read again when the log has changed. Any thread may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._cached: tuple[tuple[int, int], dict[str, Any], dict[str, dict[str, Any]]] | None = None

    def read(self) -> dict[str, Any]:
        """Return the table. Raises `EvalLogError`."""
        return self._read()[0]

    def sample(self, run_id: str) -> dict[str, Any] | None:
        """Return the sample of a run, with its score and the expected outputs. Raises `EvalLogError`."""
        return self._read()[1].get(run_id)

    def row(self) -> dict[str, Any]:
        """Return the row of the log in a list of evaluations. Raises `EvalLogError`."""
        table = self.read()
        about, everything = table["about"], table["summary"]["all"] or {}
        return {
            **{name: table[name] for name in ("name", "total")},
            **{name: about[name] for name in ("models", "baseline", "started")},
            "suites": [suite["name"] for suite in about["suites"]],
            "done": len(table["rows"]),
            **{name: everything.get(name) for name in _TOTALS},
            "folder": str(self._folder),
        }

    def scores(self) -> dict[str, float]:
        """Return the scores of the runs of the log by id. Raises `EvalLogError`."""
        return {run_id: sample["score"] for run_id, sample in self._read()[1].items()}

    def state(self) -> tuple[int, int]:
        """Return a value that changes with the log."""
        from ..evals.log import SAMPLES

        try:
            stat = (self._folder / SAMPLES).stat()
        except OSError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_size

    def _read(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        from ..evals.log import read_log

        state = self.state()
        with self._lock:
            if self._cached is None or self._cached[0] != state:
                log = read_log(self._folder)
                samples = {entry.run_id: _sample(entry) for entry in log.entries if entry.run_id is not None}
                self._cached = (state, _table(log), samples)
            return self._cached[1:]


def _table(log: EvalLog) -> dict[str, Any]:
    from ..evals.summary import summarize

    return {
        "name": log.name,
        "about": {name: log.header.get(name) for name in _HEADER_FIELDS},
        "total": log.total,
        "summary": summarize(log).to_dict(),
        "rows": [_row(entry) for entry in log.entries],
    }


def _row(entry: LogEntry) -> dict[str, Any]:
    """Return one sample, with the names of columns in the list of runs."""
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


def _sample(entry: LogEntry) -> dict[str, Any]:
    """Return one sample for the page of its run."""
    return {
        "sample": entry.sample_id,
        "suite": entry.suite,
        "epoch": entry.epoch,
        "score": entry.score,
        "scores": entry.scores,
        "expected": {name: shorten(_text(value), _MAX_CHARS) for name, value in entry.expected.items()},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = ", ".join(f"{name}: {json.dumps(item, ensure_ascii=False)}" for name, item in value.items())
    return shorten(text, _MAX_CHARS)
