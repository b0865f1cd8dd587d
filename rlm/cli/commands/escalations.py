"""`rlm escalations`: questions to a person, listed, shown and answered; and the check of plans alone.

Two kinds: runs whose plans were all rejected, and calls of MCP tools that wait for an approval.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from .. import exit_codes
from ..escalation_logs import escalations, find_escalation, open_logs, operator_outputs, plan_to_approve, read, same_set
from ..main import CommandGroup

if TYPE_CHECKING:
    from ...plans.operator import Choice

F = TypeVar("F", bound=Callable[..., Any])


def _logs_option(function: F) -> F:
    text = "The folder of the logs. Default: `plans` in rlm's data folder."
    return click.option("--logs", type=click.Path(file_okay=False), metavar="FOLDER", help=text)(function)


@click.group("escalations", cls=CommandGroup, short_help="Look at what waits for a person, and answer.")
def command() -> None:
    """Look at what waits for a person, and answer: runs whose plans were all rejected, and calls of MCP tools that may
    change something. Each is named by its id or its first characters.

    A run that waits for the answer continues with it. A run that has ended continues with `rlm resume`.

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
    """List approvals of calls, then escalations of plans, the newest first."""
    from ..approval_logs import list_approvals
    from ..console import clean, print_json

    plan_logs = open_logs(logs)
    shown = list_approvals(only_open, as_json) if logs is None else 0
    for entry in reversed(escalations(plan_logs)):
        answer = read(functools.partial(plan_logs.answers.to, entry["log_entry_id"]))
        is_open = bool(entry.get("operator_alert_flag")) and (answer is None or answer.answered_by == "timeout")
        if only_open and not is_open:
            continue
        shown += 1
        if as_json:
            print_json({**entry, "answer": _answer_dict(answer)})
            continue
        state = "open" if is_open else str(entry.get("recommended_action"))
        if answer is not None:
            state = f"{answer.answer} ({answer.answered_by})"
        line = f"{entry['log_entry_id']}  {entry['timestamp'][:19]}  loop {entry['loop_id']}  {state}"
        click.echo(clean(f"{line}  {entry['escalation_reason']}"))
    if not shown and not as_json:
        click.echo(f"No escalations in {plan_logs.folder}.", err=True)


@command.command("show")
@click.argument("escalation_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_logs_option
def show_escalation(escalation_id: str, as_json: bool, logs: str | None) -> None:
    """Show one escalation: the plans, why each was rejected, and their answers; or the calls that wait."""
    from ..approval_logs import find_approval, show_approval

    if logs is None and (approval := find_approval(escalation_id)) is not None:
        show_approval(approval, as_json)
        return
    plan_logs = open_logs(logs)
    entry = find_escalation(plan_logs, escalation_id)
    ids = set(entry["rejected_plan_ids"])
    rejections = [
        rejection
        for rejection in read(plan_logs.rejections.read)
        if same_set(rejection, entry) and rejection.get("plan_id") in ids
    ]
    answer = read(lambda: plan_logs.answers.to(entry["log_entry_id"]))
    if as_json:
        from ..console import print_json

        print_json({**entry, "rejections": rejections, "answer": _answer_dict(answer)})
        return
    from ...events import FailedThreshold
    from ..console import clean, one_line, value_text
    from ..pages.plans import failed_text

    click.echo(clean(f"escalation {entry['log_entry_id']}, loop {entry['loop_id']}, {entry['timestamp'][:19]}"))
    click.echo(clean(entry["escalation_reason"]))
    click.echo(f"recommended: {entry['recommended_action']}")
    if entry.get("fallback_details"):
        click.echo(one_line(entry["fallback_details"], 400))
    for rejection in rejections:
        plan, result = rejection.get("plan") or {}, rejection.get("result") or {}
        click.echo(clean(f"\nplan {rejection.get('plan_id')}") + "  " + one_line(str(plan.get("name") or ""), 70))
        for failed in rejection.get("failed_thresholds") or ():
            text = failed_text(FailedThreshold.from_dict(failed)) if isinstance(failed, dict) else clean(str(failed))
            click.echo(f"  {text}")
        if result.get("outputs") is not None:
            click.echo(f"  answer: {one_line(value_text(result['outputs']), 300)}")
    state = "none yet" if answer is None else f"{answer.answer} ({answer.answered_by}) {answer.note or ''}"
    click.echo(f"\nanswer: {clean(state)}")
    if answer is not None and answer.outputs is not None:
        click.echo(f"  {one_line(value_text(answer.outputs), 300)}")


@command.command("approve")
@click.argument("escalation_id", metavar="ID")
@click.option("--plan", "plan_id", metavar="PLAN", help="The plan whose answer to approve. Default: the best one.")
@click.option("--answer", "outputs", metavar="JSON", help="Your own answer instead, with all outputs; or @FILE.")
@click.option("--note", help="A few words for the record.")
@click.option(
    "--scope",
    type=click.Choice(["calls", "cell", "run"]),
    default="calls",
    show_default=True,
    help="Of calls: those that are shown, or all of this tool in the cell or the run.",
)
@_logs_option
def approve(
    escalation_id: str, plan_id: str | None, outputs: str | None, note: str | None, scope: Any, logs: str | None
) -> None:
    """Approve the calls that wait; or a rejected answer, or give your own: it must fit the task's outputs.

    \b
    Example:
      rlm escalations approve 4f1c
      rlm escalations approve 4f1c --scope cell
      rlm escalations approve 4f1c --answer '{"total": 389}'
    """
    if plan_id is not None and outputs is not None:
        raise click.UsageError("--plan and --answer exclude each other: give one of them.")
    if _answered_calls(logs, escalation_id, True, note, scope):
        return
    _answer(logs, escalation_id, "approve", note, plan_id, outputs)


@command.command("reject")
@click.argument("escalation_id", metavar="ID")
@click.option("--note", help="A few words for the record.")
@_logs_option
def reject(escalation_id: str, note: str | None, logs: str | None) -> None:
    """Leave the plans rejected: the run fails. Of calls: they are an error in the cell."""
    if _answered_calls(logs, escalation_id, False, note):
        return
    _answer(logs, escalation_id, "reject", note)


@command.command("retry")
@click.argument("escalation_id", metavar="ID")
@click.option("--note", help="What to do differently. The planner reads it.")
@_logs_option
def retry(escalation_id: str, note: str | None, logs: str | None) -> None:
    """Make and try new plans with the rest of the budget."""
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
    """Check whether all plans of a loop were rejected, and log an escalation if so. Another program may have written
    the files.

    Exit code 0: there is an escalation, new or recorded. 1: there is none.
    """
    from ...plans import FallbackConfig

    plan_logs = open_logs(logs)
    settings = {"fallback_enabled": not no_fallback, "default_fallback_strategy": strategy}
    try:
        config = FallbackConfig.of(settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    detector = plan_logs.detector(config)
    new = read(lambda: detector.check_for_escalation(loop_id))
    entry = new or read(lambda: detector.escalation_of(loop_id))
    if as_json:
        from ..console import print_json

        print_json(entry)
    elif entry is None:
        click.echo(f"No escalation: not all plans of loop {loop_id} are rejected, or there are none.", err=True)
    else:
        from ..console import clean

        state = "Escalated" if new else "Escalated before"
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

    plan_logs = open_logs(logs)
    entry = find_escalation(plan_logs, prefix)
    own = operator_outputs(plan_logs, entry, outputs) if outputs is not None else None
    if answer == "approve" and own is None:
        plan_id = plan_to_approve(plan_logs, entry, plan_id)
    operator_answer = OperatorAnswer(entry["log_entry_id"], answer, plan_id, own, note)
    try:
        read(lambda: plan_logs.answers.add(operator_answer))
    except AlreadyAnswered as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{answer}: recorded for escalation {entry['log_entry_id']}.")
    click.echo(f"A waiting run continues by itself; otherwise: rlm resume {entry['loop_id']}", err=True)


def _answered_calls(
    logs: str | None, prefix: str, approved: bool, note: str | None, scope: Literal["calls", "cell", "run"] = "calls"
) -> bool:
    """Answer calls that wait for an approval; return whether the id names some."""
    from ..approval_logs import answer_approval, find_approval

    approval = find_approval(prefix) if logs is None else None
    if approval is None:
        return False
    answer_approval(approval, approved, scope, note)
    return True


def _answer_dict(answer: Any) -> dict[str, Any] | None:
    from dataclasses import asdict

    return None if answer is None else asdict(answer)
