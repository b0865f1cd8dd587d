"""Approvals at the terminal: the calls that a cell wants to make are shown once, and a key answers."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from .console import clean

if TYPE_CHECKING:
    from ..mcp.approvals import ApprovalAnswer, ApprovalRequest, Approver, Scope
    from ..tasks import Task
    from .progress.lines import View

_SCOPES: dict[str, Scope] = {"y": "calls", "yes": "calls", "c": "cell", "r": "run"}
_MAX_LINE = 1_000


def ask_at_terminal(task: Task, view: View) -> None:
    """Have the approvals of a task's MCP servers asked at the terminal, where there is one to ask at."""
    if task.mcp is not None and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        task.mcp.approvals.approver = _approver(view)


def _approver(view: View) -> Approver:
    one_at_a_time = asyncio.Lock()

    async def ask(request: ApprovalRequest) -> ApprovalAnswer | None:
        async with one_at_a_time:
            with view.paused():
                return await answer(request, sys.stdin.fileno())

    return ask


async def answer(request: ApprovalRequest, descriptor: int) -> ApprovalAnswer | None:
    """Show a request on standard error, and return the answer that is typed; None where no more can be typed."""
    from ..mcp.approvals import ApprovalAnswer

    click.echo(f"! {clean(request.title)}:", err=True)
    for line in request.lines(width=160):
        click.echo(f"    {line}", err=True)
    how = f"rlm escalations approve {request.approval_id[:8]}"
    while True:
        click.echo(
            f"  [y] these calls  [c] all in this cell  [r] all in this run  [n] none  (elsewhere: {how})", err=True
        )
        typed = await _line(descriptor)
        if typed is None:
            return None
        known = typed.strip().lower()
        if known in _SCOPES or known in ("n", "no"):
            approved, scope = known in _SCOPES, _SCOPES.get(known, "calls")
            return ApprovalAnswer(request.approval_id, approved, scope, answered_by="terminal")


async def _line(descriptor: int) -> str | None:
    """Return a line that is typed; None at the end of the input. It can be cancelled, as a thread that reads cannot."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    text = os.read(descriptor, _MAX_LINE)  # a terminal gives whole lines
    return text.decode(errors="replace") if text else None
