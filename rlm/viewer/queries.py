"""What the page asks of one run: its events as a skeleton, some of them whole, what it began with and how it ended.

A skeleton has no texts: they are read, and sent, when somebody looks at them. SQLite leaves them out, and the rest goes
to the page as it is on record, so that a run of many thousand events is not taken apart and put together here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..traces import RunRecord

WHOLE = 200
"""At most so many events are sent whole in one answer."""

_TEXTS = {
    "model_asked": ("turns", "system"),
    "model_answered": ("text",),
    "call_started": ("arguments", "preview"),
    "call_ended": ("answer",),
}
"""The texts of the commonest kinds, and those of all others."""

_OTHER_TEXTS = (
    *("output", "text", "told", "prompt", "message", "problems", "remarks", "result"),
    *("added", "changed", "removed", "recorded", "now"),
)
_MOST_DESCENDANTS = 2_000


def _headed(name: str) -> str:
    """SQL for an event of which only the iteration and the beginning of one text are sent."""
    head = f"json_extract(meta, '$.{name}.head', '$.{name}')"
    return (
        f"""'{{"iteration":' || coalesce(json_extract(meta, '$.iteration'), 'null') || ',"head":' || {head} || '}}'"""
    )


def _without(names: Iterable[str]) -> str:
    """SQL for an event without some of its texts."""
    paths = ", ".join(f"'$.{name}'" for name in names)
    return f"json_remove(meta, {paths})"


# What begins and ends a run is in its summary, and may be nested deeper than SQLite reads. `json_extract` with two
# paths gives JSON and not a decoded text: there may be half a surrogate pair in it, which SQLite cannot hand over.
_CASES = {
    **{kind: _without(names) for kind, names in _TEXTS.items()},
    **dict.fromkeys(("iteration_started", "budget"), "meta"),
    **dict.fromkeys(("run_started", "run_ended"), "'{}'"),
    "cell_started": _headed("code"),
    "history": _headed("reasoning"),
}
_SKELETON = (
    "SELECT '[' || sequence || ',' || coalesce(parent, 'null') || ',' || json_quote(kind) || ',' || time || ',' || "
    "CASE kind "
    + " ".join(f"WHEN '{kind}' THEN {sql}" for kind, sql in _CASES.items())
    + f" ELSE {_without(_OTHER_TEXTS)} END || ']' FROM events WHERE run = ? AND sequence > ? ORDER BY sequence"
)


def skeleton(run: RunRecord, after: int = 0) -> str:
    """The events after a sequence number, as JSON: a list of `[sequence, parent, kind, time, data]`."""
    rows = run.file.query(_SKELETON, (run.number, after))
    return f"[{','.join([row[0] for row in rows])}]"


def whole(run: RunRecord, sequences: Iterable[int]) -> list[list[Any]]:
    """These events, whole; long texts are references."""
    wanted = sorted(set(sequences))[:WHOLE]
    rows = run.file.query(
        "SELECT sequence, parent, kind, time, meta FROM events "
        f"WHERE run = ? AND sequence IN ({', '.join('?' * len(wanted))}) ORDER BY sequence",
        (run.number, *wanted),
    )
    return [[*row[:4], _small(row[2], json.loads(row[4]))] for row in map(tuple, rows)]


def variables(run: RunRecord, after: int, until: int) -> list[list[Any]]:
    """What cells did to the variables: the events of it in a part of the run."""
    rows = run.file.query(
        "SELECT sequence, parent, kind, time, meta FROM events "
        "WHERE run = ? AND sequence > ? AND sequence <= ? AND kind = 'variables' ORDER BY sequence",
        (run.number, after, until),
    )
    return [[*row[:4], json.loads(row[4])] for row in map(tuple, rows)]


def summary(run: RunRecord) -> dict[str, Any]:
    """What a run began with, and how it ended; long texts are references."""
    ended = run.events(kinds=["run_ended"])
    data = _small("run_ended", ended[-1].data) if ended else {}
    return {
        "run": run.to_dict(),
        "beginning": run.beginning,
        "ending": data,
        "places": _places(run, data.get("result")),
        "descendants": [one.to_dict() for one in descendants(run)],
    }


def descendants(run: RunRecord) -> list[RunRecord]:
    """The runs under this one, parents before their children."""
    found = list(run.children)
    for one in found:  # grows while it is read
        if len(found) >= _MOST_DESCENDANTS:
            break
        found += one.children
    return found[:_MOST_DESCENDANTS]


def body(run: RunRecord, digest: str, start: int, end: int) -> dict[str, Any]:
    """A part of a text by its hash. Raises `traces.bodies.Missing`."""
    found = run.blob(digest, end + 1)
    more = len(found) > end
    if isinstance(found, bytes):
        return {"kind": "bytes", "start": start, "text": repr(found[start:end]), "more": more}
    return {"kind": "text", "start": start, "text": found[start:end], "more": more}


def _small(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """An event without the history in its result: the iterations have it."""
    result = data.get("result")
    if kind == "run_ended" and isinstance(result, dict):
        return {**data, "result": {name: value for name, value in result.items() if name != "history"}}
    return data


def _places(run: RunRecord, result: Any) -> dict[str, int]:
    """The iteration that last set each variable in which an output was seen."""
    evidence = result.get("evidence") if isinstance(result, dict) else None
    if not isinstance(evidence, list):
        return {}
    named = [one.get("variable") for one in evidence if isinstance(one, dict)]
    wanted = {name for name in named if isinstance(name, str)}
    found: dict[str, int] = {}
    for event in run.events(kinds=["variables"]) if wanted else ():
        number = event.data.get("iteration")
        if isinstance(number, int):
            touched = {*(event.data.get("added") or {}), *(event.data.get("changed") or {})}
            found.update(dict.fromkeys(wanted & touched, number))
    return found
