"""Runs on record that are run again: found, and their tasks as they were."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .options import overrides

if TYPE_CHECKING:
    from ..plans import Plan
    from ..tasks import Task
    from ..traces import RunRecord


def usable(run_id: str) -> RunRecord:
    """The run with that id, if it was started from a task file; of a run with plans, that of the plan that answered."""
    run = _find(run_id)
    if run.beginning.get("loop_id"):
        run = of_the_answer(run)
    return _checked(run)


def resumable(run_id: str) -> RunRecord:
    """The run with that id, if there is anything left to do."""
    run = _find(run_id)
    if run.parent is not None:
        raise click.UsageError(f"run {run.id} is part of run {run.parent}; use that one")
    _checked(run)
    if run.ending == "running":
        raise click.UsageError(f"run {run.id} is still going on, in another process")
    if run.ending == "submitted":
        raise click.UsageError(f"run {run.id} has submitted its answer; `rlm fork {run.id} --at N` goes another way")
    return run


def _find(run_id: str) -> RunRecord:
    from ..traces import UnknownRun, find

    try:
        return find(run_id)
    except UnknownRun as error:
        raise click.UsageError(str(error)) from None


def of_the_answer(run: RunRecord) -> RunRecord:
    """The run of the plan that answered, of a run with plans: that has no iterations of its own."""
    answered = ((run.result() or {}).get("plan") or {}).get("run_id")
    if answered is None:
        raise click.UsageError(
            f"run {run.id} is a run with plans, and none of them answered. `rlm runs show {run.id}` lists the runs of "
            f"its plans: name one of those; or go on with all of it: `rlm resume {run.id}`"
        )
    click.echo(f"Run {run.id} has plans; run {answered} is that of the plan that answered.", err=True)
    return _find(answered)


def _checked(run: RunRecord) -> RunRecord:
    if run.parent is not None and _plan(run) is None:
        raise click.UsageError(f"run {run.id} is part of run {run.parent}; use that one")
    if not _source(run).get("text"):
        raise click.UsageError(
            f"run {run.id} was started from Python, not from a task file; there, "
            f"Predict(...).resume({run.id!r}) goes on with it"
        )
    return run


def recorded_task(run: RunRecord, options: Mapping[str, Any]) -> Task:
    """The task of a run, as it was then, with what the command line says in place of it now."""
    from ..tasks import Recorded, load

    source = _source(run)
    recorded = Recorded(source["text"], run.inputs(), source.get("models") or {}, source.get("budget") or {})
    path = source["path"]
    try:
        with open(path, encoding="utf-8-sig") as file:
            changed = file.read() != recorded.text
    except OSError:
        changed = True
    if changed:
        click.echo(f"{os.path.relpath(path)} is not what it was; the task goes on as it was recorded.", err=True)
    task = load(path, overrides(options), recorded=recorded)
    plan = _plan(run)
    return task if plan is None else task.by_plan(plan, keep_model=bool(options["model"]))


def _source(run: RunRecord) -> dict[str, Any]:
    """What a run was started from; a plan's run, what its loop was."""
    if run.parent is not None and _plan(run) is not None:
        run = _find(run.parent)
    return run.resolve(run.beginning.get("task") or {})  # type: ignore[no-any-return]


def _plan(run: RunRecord) -> Plan | None:
    """The plan that a run carries out, if it is a run of one, or another way on from such a run."""
    from ..plans import Plan

    told = run.resolve((run.beginning.get("task") or {}).get("plan"))
    return None if told is None else Plan.from_dict(told)
