"""The runs of an interrupted comparison, from its trace: results of those that had ended, iterations of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..history import REPLHistoryEntry
from ..results import Failed, from_dict
from ..signatures import Signature

if TYPE_CHECKING:
    from ..traces import RunRecord
    from .loop import Recorded


def recorded_runs(run_id: str, signature: Signature) -> dict[int, Recorded]:
    """Return the runs of a recorded loop, and of those that it resumed, by their number."""
    from ..traces import UnknownRun, load, recorded_run
    from .loop import Recorded

    runs = load()
    found: dict[int, Recorded] = {}
    current: str | None = run_id
    while current is not None:
        try:
            run = runs.run(current)
        except UnknownRun:
            break
        for child in run.children:
            number = ((child.beginning.get("task") or {}).get("agree") or {}).get("run")
            if not isinstance(number, int) or (number in found and found[number].result is not None):
                continue
            result = _result(child, signature)
            past = recorded_run(child) if result is None else None
            earlier = found.get(number)
            known = earlier.past if earlier is not None else None
            if past is not None and known is not None and len(known.iterations) >= len(past.iterations):
                continue
            found[number] = Recorded(result, past)
        current = run.resumed_from
    return found


def _result(run: RunRecord, signature: Signature) -> Any:
    """Return the recorded result of a run if it counts: an answer, with its code. A run that failed is made again."""
    data = run.result()
    if not isinstance(data, dict):
        return None
    try:
        result = from_dict({"history": [], **data}, signature)
    except (KeyError, TypeError, ValueError):
        return None
    if isinstance(result, Failed):
        return None
    history = [
        REPLHistoryEntry(
            iteration.number, iteration.reasoning, iteration.code, iteration.output or "", iteration.success
        )
        for iteration in run.iterations
    ]
    return replace(result, history=tuple(history))
