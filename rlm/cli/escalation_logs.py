"""The logs of escalations as commands read and check them. Errors in them are usage errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..plans import PlanLogs


def operator_outputs(logs: PlanLogs, entry: dict[str, Any], text: str) -> dict[str, Any]:
    """Return an operator's own outputs from JSON or @FILE, checked against the schema of the task's outputs."""
    import jsonschema_rs

    try:
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        outputs = json.loads(text)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--answer is JSON, or @FILE with JSON: {error}") from None
    if not isinstance(outputs, dict):
        raise click.UsageError('--answer is an object with a value for each output: {"total": 389}')
    for comparison in read(logs.comparisons.read):
        if same_set(comparison, entry) and isinstance(comparison.get("output_schema"), dict):
            for problem in jsonschema_rs.validator_for(comparison["output_schema"]).iter_errors(outputs):
                path = "/".join(map(str, problem.instance_path)) or "the answer"
                raise click.UsageError(f"--answer does not fit the outputs of the task: {path}: {problem.message}")
    return outputs


def plan_to_approve(logs: PlanLogs, entry: dict[str, Any], prefix: str | None) -> str | None:
    """Return the id of the plan whose answer is approved; None is the best. At least one plan must have answered."""
    rejections = [rejection for rejection in read(logs.rejections.read) if rejection.get("loop_id") == entry["loop_id"]]
    answered = [
        str(rejection.get("plan_id"))
        for rejection in rejections
        if (rejection.get("result") or {}).get("outputs") is not None
    ]
    if not answered:
        raise click.UsageError(
            "No rejected plan of this loop gave an answer that could be approved; reject or retry it, "
            "or give an answer with --answer."
        )
    if prefix is None:
        return None
    matching = [plan_id for plan_id in answered if plan_id.startswith(prefix)]
    if len(matching) != 1:
        raise click.UsageError(f"{len(matching)} plans with an answer have an id that begins with {prefix!r}.")
    return matching[0]


def open_logs(folder: str | None) -> PlanLogs:
    """Return the logs in a folder, or those in rlm's data folder."""
    from ..plans import PlanLogs

    return PlanLogs(folder)


def escalations(logs: PlanLogs) -> list[dict[str, Any]]:
    """Return the recorded escalations. Entries of another form are named on standard error and left out."""
    from ..plans.escalation import check_entry
    from .console import clean

    entries = []
    for number, entry in enumerate(read(logs.escalations.read)):
        try:
            check_entry(entry)
        except ValueError as error:
            click.echo(clean(f"{logs.escalations.path}: entry {number} is left out; {error}"), err=True)
        else:
            entries.append(entry)
    return entries


def find_escalation(logs: PlanLogs, prefix: str) -> dict[str, Any]:
    """Return the escalation whose id begins with a prefix."""
    matching = [entry for entry in escalations(logs) if entry["log_entry_id"].startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    what = f"{len(matching)} escalations have ids that begin" if matching else "no escalation has an id that begins"
    raise click.UsageError(f"{what} with {prefix!r} in {logs.escalations.path}. `rlm escalations list` lists them.")


def read(function: Callable[[], Any]) -> Any:
    """Call a function that reads a log; raise a usage error if the log is broken."""
    from ..plans import JsonLogError

    try:
        return function()
    except JsonLogError as error:
        raise click.UsageError(str(error)) from None


def same_set(other: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Return whether an entry of another log is about the loop and the set of plans of an escalation."""
    return all(other.get(name) == entry.get(name) for name in ("loop_id", "comparison_set_id"))
