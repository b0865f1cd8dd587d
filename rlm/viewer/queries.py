"""The queries of the page for one run: its events without texts, some complete events, its start and its ending.

The skeleton of a run is its events without texts, which are sent when they are displayed. SQLite removes them from the
stored JSON, and the rest is sent as it is, so that thousands of events need not be parsed and serialized here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..traces import RunRecord

MAX_WHOLE = 200
"""The maximum number of complete events in one response."""

_TEXTS = {
    "model_asked": ("turns", "system"),
    "model_answered": ("text",),
    "call_started": ("arguments", "preview"),
    "call_ended": ("answer",),
}
"""The texts in events of the most frequent kinds."""

_OTHER_TEXTS = (
    *("output", "text", "told", "prompt", "message", "problems", "remarks", "result"),
    *("added", "changed", "removed", "recorded", "now"),
)
_MAX_DESCENDANTS = 2_000


def _with_head(name: str) -> str:
    """Return SQL for an event with only its iteration and the beginning of one text."""
    head = f"json_extract(meta, '$.{name}.head', '$.{name}')"
    return (
        f"""'{{"iteration":' || coalesce(json_extract(meta, '$.iteration'), 'null') || ',"head":' || {head} || '}}'"""
    )


def _without(names: Iterable[str]) -> str:
    """Return SQL for an event without some of its texts."""
    paths = ", ".join(f"'$.{name}'" for name in names)
    return f"json_remove(meta, {paths})"


# The start and the end of a run are in its summary, and may be nested deeper than SQLite reads. `json_extract` with two
# paths returns JSON, not a decoded text: SQLite cannot return text with a lone surrogate.
_CASES = {
    **{kind: _without(names) for kind, names in _TEXTS.items()},
    **dict.fromkeys(("iteration_started", "budget"), "meta"),
    **dict.fromkeys(("run_started", "run_ended"), "'{}'"),
    "cell_started": _with_head("code"),
    "history": _with_head("reasoning"),
}
_SKELETON = (
    "SELECT '[' || sequence || ',' || coalesce(parent, 'null') || ',' || json_quote(kind) || ',' || time || ',' || "
    "CASE kind "
    + " ".join(f"WHEN '{kind}' THEN {sql}" for kind, sql in _CASES.items())
    + f" ELSE {_without(_OTHER_TEXTS)} END || ']' FROM events WHERE run = ? AND sequence > ? ORDER BY sequence"
)


def skeleton(run: RunRecord, after: int = 0) -> str:
    """Return the events after a sequence number as JSON: a list of `[sequence, parent, kind, time, data]`."""
    rows = run.file.query(_SKELETON, (run.number, after))
    return f"[{','.join([row[0] for row in rows])}]"


def whole(run: RunRecord, sequences: Iterable[int]) -> list[list[Any]]:
    """Return complete events by sequence number; long texts are references."""
    wanted = sorted(set(sequences))[:MAX_WHOLE]
    rows = run.file.query(
        "SELECT sequence, parent, kind, time, meta FROM events "
        f"WHERE run = ? AND sequence IN ({', '.join('?' * len(wanted))}) ORDER BY sequence",
        (run.number, *wanted),
    )
    return [[*row[:4], _without_history(row[2], json.loads(row[4]))] for row in map(tuple, rows)]


def variables(run: RunRecord, after: int, until: int) -> list[list[Any]]:
    """Return the events of one part of the run that changed variables."""
    rows = run.file.query(
        "SELECT sequence, parent, kind, time, meta FROM events "
        "WHERE run = ? AND sequence > ? AND sequence <= ? AND kind = 'variables' ORDER BY sequence",
        (run.number, after, until),
    )
    return [[*row[:4], json.loads(row[4])] for row in map(tuple, rows)]


def summary(run: RunRecord) -> dict[str, Any]:
    """Return the start and the ending of a run; long texts are references."""
    ended = run.events(kinds=["run_ended"])
    data = _without_history("run_ended", ended[-1].data) if ended else {}
    below = descendants(run)
    answered_by = _answered_by(run, below, data.get("result"))
    return {
        "run": run.to_dict(),
        "beginning": run.beginning,
        "ending": data,
        "answered_by": answered_by.id,
        "set_at": _set_at(answered_by, data.get("result")),
        "descendants": [descendant.to_dict() for descendant in below],
    }


def descendants(run: RunRecord) -> list[RunRecord]:
    """Return the child runs of a run and their child runs, parents first."""
    runs = list(run.children)
    for descendant in runs:  # the list grows during the iteration
        if len(runs) >= _MAX_DESCENDANTS:
            break
        runs += descendant.children
    return runs[:_MAX_DESCENDANTS]


def blob(run: RunRecord, digest: str, start: int, end: int) -> dict[str, Any]:
    """Return a part of a text by its hash. Raises `traces.blobs.BlobNotFound`."""
    value = run.blob(digest, end + 1)
    more = len(value) > end
    if isinstance(value, bytes):
        return {"kind": "bytes", "start": start, "text": repr(value[start:end]), "more": more}
    return {"kind": "text", "start": start, "text": value[start:end], "more": more}


def _without_history(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of an event without the history of a result, which repeats the iterations."""
    result = data.get("result")
    if kind == "run_ended" and isinstance(result, dict):
        return {**data, "result": {name: value for name, value in result.items() if name != "history"}}
    return data


def _answered_by(run: RunRecord, below: Iterable[RunRecord], result: Any) -> RunRecord:
    """Return the run that has the answer: the run itself, that of the accepted plan, or that which most agree with."""
    parts = [result.get(name) for name in ("plan", "agreement")] if isinstance(result, dict) else []
    ids = [part.get("run_id") for part in parts if isinstance(part, dict)]
    known = {child.id: child for child in below}
    return next((known[run_id] for run_id in ids if run_id in known), run)


def _set_at(run: RunRecord, result: Any) -> dict[str, int]:
    """Return the iteration that last set each variable that is evidence for an output."""
    evidence = result.get("evidence") if isinstance(result, dict) else None
    if not isinstance(evidence, list):
        return {}
    variables = [item.get("variable") for item in evidence if isinstance(item, dict)]
    wanted = {name for name in variables if isinstance(name, str)}
    iterations: dict[str, int] = {}
    for event in run.events(kinds=["variables"]) if wanted else ():
        number = event.data.get("iteration")
        if isinstance(number, int):
            set_here = {*(event.data.get("added") or {}), *(event.data.get("changed") or {})}
            iterations.update(dict.fromkeys(wanted & set_here, number))
    return iterations
