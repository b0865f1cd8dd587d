"""The list of all runs as JSON, with batch, session, plans, score and note; made again when something changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .evaluations import Evaluations

if TYPE_CHECKING:
    from ..traces import Runs
    from ..traces.notes import Notes
    from .run_cache import RunCache

# Where a run comes from is in its first event, which never changes. `json_extract` with several paths returns JSON.
_ORIGINS = (
    "SELECT runs.number, json_extract(meta, '$.task.batch', '$.task.item', '$.loop_id', '$.task.session', "
    "'$.task.question') FROM runs "
    "JOIN events ON events.run = runs.number AND events.sequence = 1 WHERE runs.number > ? AND json_valid(meta)"
)


class RunList:
    """The list of one server. Any thread may use it."""

    def __init__(self, cache: RunCache, evaluations: Evaluations, notes: Notes) -> None:
        self._cache, self._evaluations, self._notes = cache, evaluations, notes
        self._lock = threading.Lock()
        self._origins: dict[Path, dict[int, dict[str, Any]]] = {}
        self._made: tuple[str, str] | None = None

    def text(self, known: str | None = None) -> str:
        """Return the list as JSON; if it has the state `known`, only that it is the same."""
        with self._lock:
            state = self._state()
            if self._made is None or self._made[0] != state:
                self._made = (state, self._make(state))
            return '{"same":true}' if known == state else self._made[1]

    def _state(self) -> str:
        with contextlib.suppress(OSError):
            stat = self._notes.path.stat()
            notes = (stat.st_mtime_ns, stat.st_size)
            return _digest((self._cache.state(), self._evaluations.state(), notes))
        return _digest((self._cache.state(), self._evaluations.state()))

    def _make(self, state: str) -> str:
        runs = self._cache.runs()
        self._read_origins(runs)
        scores, notes = self._evaluations.scores(), self._notes.all()
        rows = []
        for run in runs:
            row = run.to_dict() | self._origins.get(run.file.path, {}).get(run.number, {})
            if run.id in scores:
                row["score"] = scores[run.id]
            if run.id in notes:
                row |= {"note": notes[run.id].text, "labels": list(notes[run.id].labels)}
            rows.append(row)
        return json.dumps({"state": state, "runs": rows, "skipped": list(runs.skipped)}, separators=(",", ":"))

    def _read_origins(self, runs: Runs) -> None:
        for file in {run.file.path: run.file for run in runs}.values():
            known = self._origins.setdefault(file.path, {})
            with contextlib.suppress(sqlite3.Error):  # without it, the list is still a list
                for number, values in file.query(_ORIGINS, (max(known, default=0),)):
                    *texts, question = json.loads(values)
                    batch, item, loop, session = map(_text, texts)
                    known[number] = _known(batch=batch, item=item, loop=loop, session=session)
                    if session is not None and isinstance(question, int):
                        known[number]["question"] = question


def _known(**values: str | None) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _text(value: Any) -> str | None:
    """Return a recorded text; of a long one, its beginning."""
    if isinstance(value, dict):
        value = value.get("head")
    return value if isinstance(value, str) else None


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode("utf-8", "surrogateescape")).hexdigest()[:24]
