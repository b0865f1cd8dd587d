"""A loop that goes on: which loop a run on record was of, and how far the plans had come that it was running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..repl.replay import RecordedRun

if TYPE_CHECKING:
    from ..traces import RunRecord


def loop_of(run_id: str) -> str:
    """The loop that a run on record was a run of: its own, unless it went on with an earlier one."""
    return next((str(run.beginning.get("loop_id") or run.id) for run in _runs(run_id)), run_id)


def begun(run_id: str) -> dict[str, RecordedRun]:
    """What is on record of the plans that a loop has run so far, by `plan_id`; of several runs, the longest."""
    from ..traces import recorded_run

    found: dict[str, RecordedRun] = {}
    for run in _runs(run_id):
        for child in run.children:
            plan = (child.beginning.get("task") or {}).get("plan") or {}
            if (plan_id := plan.get("plan_id")) is not None:
                made = recorded_run(child)
                if plan_id not in found or len(made.iterations) > len(found[plan_id].iterations):
                    found[plan_id] = made
    return found


def _runs(run_id: str | None) -> Iterator[RunRecord]:
    """A run and those that it went on from, the newest first; as far as they are on record."""
    from ..traces import UnknownRun, load

    runs = load()
    while run_id is not None:
        try:
            run = runs.run(run_id)
        except UnknownRun:
            return
        yield run
        run_id = run.resumed_from
