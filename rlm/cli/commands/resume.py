"""`rlm resume`: continue a run that was interrupted, killed or ended by its budget."""

from __future__ import annotations

from typing import Any

import click

from ..options import change_options, ending_options
from ..recorded_tasks import complete_run


@click.command("resume", short_help="Continue a run that was cut off.")
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@click.option("--again", is_flag=True, help="Also if the run was resumed before.")
@change_options
@ending_options
@click.pass_context
def command(ctx: click.Context, /, run_id: str, again: bool, **options: Any) -> None:
    """Continue a recorded run that was interrupted or killed, or that its budget ended.

    A fresh kernel runs the recorded cells again. Calls to models and tools are answered from the record, so nothing is
    asked twice. Then the run continues, with a larger budget if one is given. RUN is an id, or its first characters.
    In a run with plans, rejected plans stay rejected, and an operator's answer counts.

    \b
    Example:
      rlm runs list --ending unfinished
      rlm resume 3f2a
      rlm resume 3f2a --max-iterations 40 --max-duration 20m
    """
    from ..console import answer_only, count
    from ..recorded_tasks import recorded_task, resumable_run
    from ..runner import run_and_show

    with answer_only() as output:
        run = resumable_run(run_id, again=again)
        task = recorded_task(run, options)
        from ...traces import recorded_run

        before = recorded_run(run)
        iterations = f"after {count(len(before.iterations), 'recorded iteration')}"
        click.echo(f"Run {run.id} continues {'with its plans' if task.plans is not None else iterations}.", err=True)
        code = run_and_show(task, output, options, before)
    ctx.exit(code)
