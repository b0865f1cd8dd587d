"""Resuming a loop: the loop of a recorded run, and the recorded runs of its plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..repl.replay import RecordedRun

if TYPE_CHECKING:
    from ..traces import RunRecord


def loop_of(run_id: str) -> str:
    """Return the id of the loop of a recorded run: its own id, unless it resumed another run."""
    return next((str(run.beginning.get("loop_id") or run.id) for run in _runs(run_id)), run_id)


def recorded_plans(run_id: str) -> dict[str, RecordedRun]:
    """Return the recorded runs of a loop's plans, by `plan_id`; of several runs of one plan, the longest."""
    from ..traces import recorded_run

    recorded: dict[str, RecordedRun] = {}
    for run in _runs(run_id):
        for child in run.children:
            plan = (child.beginning.get("task") or {}).get("plan") or {}
            if (plan_id := plan.get("plan_id")) is not None:
                child_run = recorded_run(child)
                if plan_id not in recorded or len(child_run.iterations) > len(recorded[plan_id].iterations):
                    recorded[plan_id] = child_run
    return recorded


def _runs(run_id: str | None) -> Iterator[RunRecord]:
    """Yield a run and the runs that it resumed, newest first, as far as they are recorded."""
    from ..traces import UnknownRun, load

    runs = load()
    while run_id is not None:
        try:
            run = runs.run(run_id)
        except UnknownRun:
            return
        yield run
        run_id = run.resumed_from
