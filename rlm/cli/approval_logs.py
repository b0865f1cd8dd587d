"""Approvals of calls of MCP tools, as `rlm escalations` lists, shows and answers them."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import click

from .console import clean, one_line, print_json
from .escalation_logs import read

if TYPE_CHECKING:
    from ..mcp.approvals import ApprovalAnswer, ApprovalLogs, ApprovalRequest, Scope


def open_approvals() -> ApprovalLogs:
    """Return the logs in rlm's data folder."""
    from ..mcp.approvals import ApprovalLogs

    return ApprovalLogs()


def list_approvals(only_open: bool, as_json: bool) -> int:
    """List the approvals, the newest first; return how many there are."""
    logs = open_approvals()
    shown = 0
    for request in reversed(read(logs.all)):
        answer = read(functools.partial(logs.answer_to, request.approval_id))
        if only_open and answer is not None:
            continue
        shown += 1
        if as_json:
            print_json(_to_dict(request, answer))
        else:
            state = "open" if answer is None else f"{_verb(answer)} ({clean(answer.answered_by)})"
            line = f"{request.approval_id}  {request.timestamp[:19]}  run {request.run_id}  {state}  {request.title}"
            click.echo(one_line(line, 300))
    return shown


def find_approval(prefix: str) -> ApprovalRequest | None:
    """Return the approval whose id begins with a prefix; None where there is none. Raise for more than one."""
    found = [request for request in read(open_approvals().all) if request.approval_id.startswith(prefix)]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} approvals have ids that begin with {prefix!r}.")
    return found[0] if found else None


def show_approval(request: ApprovalRequest, as_json: bool) -> None:
    """Show an approval with all its calls."""
    answer = read(lambda: open_approvals().answer_to(request.approval_id))
    if as_json:
        print_json(_to_dict(request, answer))
        return
    click.echo(f"approval {request.approval_id}, run {request.run_id}, iteration {request.iteration}")
    click.echo(clean(request.title))
    for line in request.lines(most=len(request.calls), width=10_000):
        click.echo(f"  {line}")
    state = "none yet" if answer is None else f"{_verb(answer)} ({answer.answered_by}) {answer.note or ''}"
    click.echo(f"answer: {clean(state)}")


def answer_approval(request: ApprovalRequest, approved: bool, scope: Scope, note: str | None) -> None:
    """Answer an approval, which must not have been answered."""
    from ..mcp.approvals import ApprovalAlreadyAnswered, ApprovalAnswer

    answer = ApprovalAnswer(request.approval_id, approved, scope, note)
    try:
        read(lambda: open_approvals().answer_once(answer))
    except ApprovalAlreadyAnswered as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{_verb(answer)}: recorded for approval {request.approval_id}.")


def _verb(answer: ApprovalAnswer) -> str:
    return f"approved for the {answer.scope}" if answer.approved else "rejected"


def _to_dict(request: ApprovalRequest, answer: ApprovalAnswer | None) -> dict[str, Any]:
    from dataclasses import asdict

    plain = {"kind": "approval", **asdict(request), "answer": None if answer is None else asdict(answer)}
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]
