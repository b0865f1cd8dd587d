"""Runs on record that are run again: found, and their tasks as they were."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .options import overrides

if TYPE_CHECKING:
    from ..tasks import Task
    from ..traces import RunRecord


def usable(run_id: str, *, plans: bool = False) -> RunRecord:
    """The run with that id, if it was started from a task file. Runs with plans have no iterations of their own."""
    from ..traces import UnknownRun, find

    try:
        run = find(run_id)
    except UnknownRun as error:
        raise click.UsageError(str(error)) from None
    if run.parent is not None:
        raise click.UsageError(f"run {run.id} is part of run {run.parent}; use that one")
    if run.beginning.get("loop_id") and not plans:
        raise click.UsageError(f"run {run.id} is a run with plans; only `rlm resume {run.id}` can go on with it")
    if not _source(run):
        raise click.UsageError(
            f"run {run.id} was started from Python, not from a task file; there, "
            f"Predict(...).resume({run.id!r}) goes on with it"
        )
    return run


def resumable(run_id: str) -> RunRecord:
    """The run with that id, if there is anything left to do."""
    run = usable(run_id, plans=True)
    if run.ending == "running":
        raise click.UsageError(f"run {run.id} is still going on, in another process")
    if run.ending == "submitted":
        raise click.UsageError(f"run {run.id} has submitted its answer; `rlm fork {run.id} --at N` goes another way")
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
    return load(path, overrides(options), recorded=recorded)


def _source(run: RunRecord) -> dict[str, Any]:
    return run.filled(run.beginning.get("task") or {})  # type: ignore[no-any-return]
