"""`rlm escalations`: runs whose plans were all rejected. Listed, shown, answered; and the check by itself."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .. import exit_codes
from ..escalation_logs import approvable, escalations, find, guarded, is_of, open_logs, own_answer

if TYPE_CHECKING:
    from ...plans.operator import Choice

F = TypeVar("F", bound=Callable[..., Any])


def _logs_option(function: F) -> F:
    text = "The folder of the logs; `plans` in rlm's own folder, unless told."
    return click.option("--logs", type=click.Path(file_okay=False), metavar="FOLDER", help=text)(function)


@click.group("escalations", short_help="Look at runs whose plans were all rejected, and answer.")
def command() -> None:
    """Look at runs whose plans were all rejected, and answer. An escalation is named by its id, or how it begins.

    A run that waits for the answer goes on with it. A run that has ended goes on with `rlm resume`.

    \b
    Example:
      rlm escalations list
      rlm escalations show 4f1c
      rlm escalations approve 4f1c
      rlm escalations retry 4f1c --note "the totals are in the second table"
    """


@command.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only those that no operator has answered.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
@_logs_option
def list_escalations(only_open: bool, as_json: bool, logs: str | None) -> None:
    """List escalations, the newest first."""
    from ..formatting import clean

    found = open_logs(logs)
    shown = 0
    for entry in reversed(escalations(found)):
        answer = guarded(functools.partial(found.answers.to, entry["log_entry_id"]))
        waits = bool(entry.get("operator_alert_flag")) and (answer is None or answer.answered_by == "timeout")
        if only_open and not waits:
            continue
        shown += 1
        if as_json:
            _say_json({**entry, "answer": _answer_dict(answer)})
            continue
        said = "open" if waits else str(entry.get("recommended_action"))
        if answer is not None:
            said = f"{answer.answer} ({answer.answered_by})"
        line = f"{entry['log_entry_id']}  {entry['timestamp'][:19]}  loop {entry['loop_id']}  {said}"
        click.echo(clean(f"{line}  {entry['escalation_reason']}"))
    if not shown and not as_json:
        click.echo(f"No escalations in {found.folder}.", err=True)


@command.command("show")
@click.argument("escalation_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_logs_option
def show_escalation(escalation_id: str, as_json: bool, logs: str | None) -> None:
    """Show one escalation: the plans, what each was rejected for, and the answers that they gave."""
    found = open_logs(logs)
    entry = find(found, escalation_id)
    ids = set(entry["rejected_plan_ids"])
    rejections = [one for one in guarded(found.rejections.read) if is_of(one, entry) and one.get("plan_id") in ids]
    answer = guarded(lambda: found.answers.to(entry["log_entry_id"]))
    if as_json:
        _say_json({**entry, "rejections": rejections, "answer": _answer_dict(answer)})
        return
    from ...events import FailedThreshold
    from ..formatting import clean, one_line, value_text
    from ..pages.plans import failed_text

    click.echo(clean(f"escalation {entry['log_entry_id']}, loop {entry['loop_id']}, {entry['timestamp'][:19]}"))
    click.echo(clean(entry["escalation_reason"]))
    click.echo(f"recommended: {entry['recommended_action']}")
    if entry.get("fallback_details"):
        click.echo(one_line(entry["fallback_details"], 400))
    for one in rejections:
        plan, result = one.get("plan") or {}, one.get("result") or {}
        click.echo(clean(f"\nplan {one.get('plan_id')}") + "  " + one_line(str(plan.get("name") or ""), 70))
        for failed in one.get("failed_thresholds") or ():
            text = failed_text(FailedThreshold.from_dict(failed)) if isinstance(failed, dict) else clean(str(failed))
            click.echo(f"  {text}")
        if result.get("outputs") is not None:
            click.echo(f"  answer: {one_line(value_text(result['outputs']), 300)}")
    said = "none yet" if answer is None else f"{answer.answer} ({answer.answered_by}) {answer.note or ''}"
    click.echo(f"\nanswer: {clean(said)}")
    if answer is not None and answer.outputs is not None:
        click.echo(f"  {one_line(value_text(answer.outputs), 300)}")


@command.command("approve")
@click.argument("escalation_id", metavar="ID")
@click.option("--plan", "plan_id", metavar="PLAN", help="Whose answer; the best rejected one, unless told.")
@click.option("--answer", "outputs", metavar="JSON", help="An answer of your own instead, with all outputs; or @FILE.")
@click.option("--note", help="A few words for the record.")
@_logs_option
def approve(escalation_id: str, plan_id: str | None, outputs: str | None, note: str | None, logs: str | None) -> None:
    """Let a rejected answer pass, or give one of your own: it must fit the task's outputs.

    \b
    Example:
      rlm escalations approve 4f1c
      rlm escalations approve 4f1c --answer '{"total": 389}'
    """
    if plan_id is not None and outputs is not None:
        raise click.UsageError("--plan and --answer exclude each other: an answer is a plan's or your own.")
    _answer(logs, escalation_id, "approve", note, plan_id, outputs)


@command.command("reject")
@click.argument("escalation_id", metavar="ID")
@click.option("--note", help="A few words for the record.")
@_logs_option
def reject(escalation_id: str, note: str | None, logs: str | None) -> None:
    """Leave the plans rejected: the run fails."""
    _answer(logs, escalation_id, "reject", note)


@command.command("retry")
@click.argument("escalation_id", metavar="ID")
@click.option("--note", help="What to do otherwise. Whoever makes the new plans reads it.")
@_logs_option
def retry(escalation_id: str, note: str | None, logs: str | None) -> None:
    """Have new plans made and tried, with what is left of the budget."""
    _answer(logs, escalation_id, "retry", note)


@command.command("check")
@click.argument("loop_id", metavar="LOOP_ID")
@click.option("--strategy", default="log_and_alert_operator", show_default=True, help="The fallback strategy.")
@click.option("--no-fallback", is_flag=True, help="Only log an escalation.")
@click.option("--json", "as_json", is_flag=True, help="JSON: the entry, or null.")
@_logs_option
@click.pass_context
def check(
    ctx: click.Context, /, loop_id: str, strategy: str, no_fallback: bool, as_json: bool, logs: str | None
) -> None:
    """Check whether all plans of a loop were rejected, and log it if so. The files may be another program's.

    Exit code 0: there is an escalation, new or on record. 1: there is none.
    """
    from ...plans import FallbackConfig

    found = open_logs(logs)
    settings = {"fallback_enabled": not no_fallback, "default_fallback_strategy": strategy}
    try:
        config = FallbackConfig.of(settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    detector = found.detector(config)
    fresh = guarded(lambda: detector.check_for_escalation(loop_id))
    entry = fresh or guarded(lambda: detector.escalation_of(loop_id))
    if as_json:
        _say_json(entry)
    elif entry is None:
        click.echo(f"No escalation: not all plans of loop {loop_id} are rejected, or there are none.", err=True)
    else:
        from ..formatting import clean

        state = "Escalated" if fresh else "Escalated before"
        click.echo(clean(f"{state} as {entry['log_entry_id']}: {entry['escalation_reason']}"))
        click.echo(
            clean(f"recommended: {entry['recommended_action']}; {entry.get('fallback_details') or 'no fallback'}")
        )
    ctx.exit(exit_codes.ANSWERED if entry is not None else exit_codes.NO_ANSWER)


def _answer(
    logs: str | None,
    prefix: str,
    answer: Choice,
    note: str | None,
    plan_id: str | None = None,
    outputs: str | None = None,
) -> None:
    from ...plans.operator import AlreadyAnswered, OperatorAnswer

    found = open_logs(logs)
    entry = find(found, prefix)
    own = own_answer(found, entry, outputs) if outputs is not None else None
    if answer == "approve" and own is None:
        plan_id = approvable(found, entry, plan_id)
    given = OperatorAnswer(entry["log_entry_id"], answer, plan_id, own, note)
    try:
        guarded(lambda: found.answers.give(given))
    except AlreadyAnswered as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{answer}: recorded for escalation {entry['log_entry_id']}.")
    click.echo(f"A run that waits goes on by itself; otherwise: rlm resume {entry['loop_id']}", err=True)


def _answer_dict(answer: Any) -> dict[str, Any] | None:
    from dataclasses import asdict

    return None if answer is None else asdict(answer)


def _say_json(value: Any) -> None:
    from ..console import safe_json

    click.echo(safe_json(json.dumps(value)))
