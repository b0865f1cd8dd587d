"""Recorded runs named on the command line, and their tasks as they were when they ran."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .options import overrides

if TYPE_CHECKING:
    from ..plans import Plan
    from ..tasks import Task
    from ..traces import RunRecord

_COMPLETED = 50


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the newest runs that begin like this, for the completion of shells."""
    from ..traces import load

    runs = [run for run in load().roots if run.id.startswith(incomplete)]
    return [CompletionItem(run.id, help=f"{run.ending}, {run.task or run.name}") for run in runs[:_COMPLETED]]


def find_run(run_id: str) -> RunRecord:
    """Return the run whose id begins like this, or raise a usage error."""
    from ..traces import UnknownRun, find

    try:
        return find(run_id)
    except UnknownRun as error:
        raise click.UsageError(f"{error}. `rlm runs list --all` lists them.") from None


def repeatable_run(run_id: str) -> RunRecord:
    """Return a run that can be replayed or forked; of a run with plans, the run of the plan that answered."""
    run = find_run(run_id)
    if run.beginning.get("loop_id"):
        run = run_of_answer(run)
    return _checked(run)


def resumable_run(run_id: str, *, again: bool = False) -> RunRecord:
    """Return a run that can be resumed: it is not running, has not submitted, and was not resumed unless `again`."""
    run = find_run(run_id)
    if run.resumed_by is not None and not again:
        later = find_run(run.resumed_by)
        to_see = f"`rlm runs show {later.id}` shows it"
        if later.ending not in ("submitted", "running", "resumed"):
            to_see += f", `rlm resume {later.id}` goes on with it"
        raise click.UsageError(
            f"run {run.id} was resumed already, as run {later.id} ({later.ending}). {to_see[0].upper()}{to_see[1:]}; "
            f"`rlm resume {run.id} --again` resumes {run.id} once more"
        )
    if run.parent is not None:
        raise click.UsageError(f"run {run.id} is part of run {run.parent}; use that one")
    _checked(run)
    if run.ending == "running":
        raise click.UsageError(f"run {run.id} is still running, in another process")
    if run.ending == "submitted":
        raise click.UsageError(f"run {run.id} has submitted its answer; `rlm fork {run.id} --at N` takes another way")
    return run


def run_of_answer(run: RunRecord) -> RunRecord:
    """Return the run of the plan that answered: a run with plans has no iterations of its own."""
    result = run.result() or {}
    agreed = (result.get("agreement") or {}).get("run_id")
    if agreed is not None:
        click.echo(f"Run {run.id} is several runs; using run {agreed}, which gave the answer.", err=True)
        answer = find_run(agreed)
        return run_of_answer(answer) if answer.beginning.get("loop_id") else answer
    answered = (result.get("plan") or {}).get("run_id")
    if answered is None:
        raise click.UsageError(
            f"run {run.id} is a run with plans, and none of them answered. `rlm runs show {run.id}` lists the runs of "
            f"its plans: name one of those; or resume all of it: `rlm resume {run.id}`"
        )
    click.echo(f"Run {run.id} has plans; using run {answered}, of the plan that answered.", err=True)
    return find_run(answered)


def recorded_task(run: RunRecord, options: Mapping[str, Any]) -> Task:
    """Return the task of a run as it was recorded, with the changes of the command line."""
    from ..tasks import Recorded, load

    source = _source(run)
    recorded = Recorded(
        source["text"],
        _inputs(run),
        source.get("models") or {},
        source.get("budget") or {},
        mode=source.get("mode"),
        agree=source.get("agree"),
        mcp=source.get("mcp"),
    )
    path = source["path"]
    try:
        with open(path, encoding="utf-8-sig") as file:
            changed = file.read() != recorded.text
    except OSError:
        changed = True
    if changed:
        click.echo(f"{os.path.relpath(path)} has changed since; the recorded text is used.", err=True)
    task = load(path, overrides(options), recorded=recorded)
    plan = _plan(run)
    return task if plan is None else task.by_plan(plan, keep_model=bool(options.get("model")))


def _inputs(run: RunRecord) -> dict[str, Any]:
    """Return the recorded inputs, or raise a usage error that names the one that is gone."""
    from ..traces.encoding import InputNotRecorded

    try:
        return run.inputs()
    except InputNotRecorded as error:
        raise click.UsageError(f"run {run.id} cannot be run again: {error}") from None


def _checked(run: RunRecord) -> RunRecord:
    if run.parent is not None and _plan(run) is None:
        raise click.UsageError(f"run {run.id} is part of run {run.parent}; use that one")
    if (session := _source(run).get("session")) is not None:
        raise click.UsageError(
            f"run {run.id} is a question of session {session}; `rlm sessions resume {session}` opens that"
        )
    if not _source(run).get("text"):
        raise click.UsageError(
            f"run {run.id} was started from Python, not from a task file; in Python, "
            f"Predict(...).resume({run.id!r}) continues it"
        )
    return run


def _source(run: RunRecord) -> dict[str, Any]:
    """Return the task file that a run was started from; for the run of a plan, that of its parent."""
    if run.parent is not None and _plan(run) is not None:
        run = find_run(run.parent)
    return run.resolve(run.beginning.get("task") or {})  # type: ignore[no-any-return]


def _plan(run: RunRecord) -> Plan | None:
    """Return the plan that a run, or the run that it was forked from, carries out."""
    from ..plans import Plan

    plan = run.resolve((run.beginning.get("task") or {}).get("plan"))
    return None if plan is None else Plan.from_dict(plan)
