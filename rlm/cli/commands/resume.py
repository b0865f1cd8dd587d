"""`rlm resume`: a run that was interrupted, killed or cut off by its budget goes on where it was."""

from __future__ import annotations

from typing import Any

import click

from ..options import change_options, ending_options


@click.command("resume", short_help="Go on with a run that was cut off.")
@click.argument("run_id", metavar="RUN")
@change_options
@ending_options
@click.pass_context
def command(ctx: click.Context, /, run_id: str, **options: Any) -> None:
    """Go on with a run on record: one that was interrupted or killed, or that its budget cut off.

    A fresh kernel runs the recorded cells again. Calls to models and tools are answered from the record, so nothing is
    asked twice. Then the run goes on, with a larger budget if one is given. RUN is an id, or how one begins.
    In a run with plans, those that were rejected stay so, and an operator's answer counts.

    \b
    Example:
      rlm runs list --ending unfinished
      rlm resume 3f2a
      rlm resume 3f2a --max-iterations 40 --max-duration 20m
    """
    from ..console import answer_only
    from ..recorded_tasks import recorded_task, resumable
    from ..runner import run_and_show

    with answer_only() as output:
        run = resumable(run_id)
        task = recorded_task(run, options)
        from ...traces import past

        before = past(run)
        done = "with its plans" if task.plans is not None else f"after {len(before.iterations)} iterations on record"
        click.echo(f"Run {run.id} goes on {done}.", err=True)
        code = run_and_show(task, output, options, before)
    ctx.exit(code)
