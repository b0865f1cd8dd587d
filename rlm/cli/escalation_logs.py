"""The logs of escalations, as commands read them: what cannot be used is said in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..plans import PlanLogs


def own_answer(logs: PlanLogs, entry: dict[str, Any], text: str) -> dict[str, Any]:
    """An operator's own answer, checked against what the task wants."""
    import jsonschema_rs

    try:
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        made = json.loads(text)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--answer is JSON, or @FILE with JSON: {error}") from None
    if not isinstance(made, dict):
        raise click.UsageError('--answer is an object with a value for each output: {"total": 389}')
    for one in guarded(logs.comparisons.read):
        if is_of(one, entry) and isinstance(one.get("output_schema"), dict):
            for problem in jsonschema_rs.validator_for(one["output_schema"]).iter_errors(made):
                where = "/".join(map(str, problem.instance_path)) or "the answer"
                raise click.UsageError(f"--answer does not fit the outputs of the task: {where}: {problem.message}")
    return made


def approvable(logs: PlanLogs, entry: dict[str, Any], prefix: str | None) -> str | None:
    """The plan whose answer is approved; None is the best. There must be one that gave an answer."""
    rejections = [one for one in guarded(logs.rejections.read) if one.get("loop_id") == entry["loop_id"]]
    answered = [str(one.get("plan_id")) for one in rejections if (one.get("result") or {}).get("outputs") is not None]
    if not answered:
        raise click.UsageError(
            "No rejected plan of this loop gave an answer that could be approved; reject or retry it, "
            "or give an answer with --answer."
        )
    if prefix is None:
        return None
    matching = [one for one in answered if one.startswith(prefix)]
    if len(matching) != 1:
        raise click.UsageError(f"{len(matching)} plans with an answer have an id that begins with {prefix!r}.")
    return matching[0]


def open_logs(folder: str | None) -> PlanLogs:
    """The logs in a folder, or rlm's own."""
    from ..plans import PlanLogs

    return PlanLogs(folder)


def escalations(logs: PlanLogs) -> list[dict[str, Any]]:
    """The escalations on record. What another program wrote and is none is named, and left out."""
    from ..plans.escalation import check_entry
    from .formatting import clean

    found = []
    for number, entry in enumerate(guarded(logs.escalations.read)):
        try:
            check_entry(entry)
        except ValueError as error:
            click.echo(clean(f"{logs.escalations.path}: entry {number} is left out; {error}"), err=True)
        else:
            found.append(entry)
    return found


def find(logs: PlanLogs, prefix: str) -> dict[str, Any]:
    """The escalation whose id begins like this."""
    found = [one for one in escalations(logs) if one["log_entry_id"].startswith(prefix)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} escalations have ids that begin" if found else "no escalation has an id that begins"
    raise click.UsageError(f"{what} with {prefix!r} in {logs.escalations.path}. `rlm escalations list` lists them.")


def guarded(read: Callable[[], Any]) -> Any:
    """What a function gives; a log that cannot be read is said in words."""
    from ..plans import LogError

    try:
        return read()
    except LogError as error:
        raise click.UsageError(str(error)) from None


def is_of(rejection: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Whether an entry of another log is about the loop and the set of an escalation."""
    return all(rejection.get(name) == entry.get(name) for name in ("loop_id", "comparison_set_id"))
