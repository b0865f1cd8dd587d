"""`rlm fork`: a new run that shares the first iterations of a recorded one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ..options import change_options, ending_options
from ..recorded_tasks import complete_run


@click.command("fork", short_help="Start a run from some iteration of a recorded one.")
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@click.option("--at", "at", type=click.IntRange(min=0), required=True, metavar="N", help="Keep the first N iterations.")
@change_options
@ending_options
@click.pass_context
def command(ctx: click.Context, /, run_id: str, at: int, **options: Any) -> None:
    """Replay the first N iterations of a recorded run and continue from there with another model or another budget.

    The recorded run stays as it is; the fork is a new run.

    \b
    Example:
      rlm fork 3f2a --at 3 --model openai/gpt-5
    """
    from ...traces import recorded_run
    from ..console import answer_only, count
    from ..recorded_tasks import recorded_task, repeatable_run
    from ..runner import run_and_show

    with answer_only() as output:
        run = repeatable_run(run_id)
        before = recorded_run(run, iterations=at)
        if len(before.iterations) < at:
            raise click.UsageError(
                f"run {run.id} has {count(len(before.iterations), 'iteration')}; --at {at} is past its end"
            )
        task = recorded_task(run, options)
        task = replace(task, source={**(task.source or {}), "forked_at": at})
        click.echo(f"Run {run.id} is forked after iteration {at}.", err=True)
        code = run_and_show(task, output, options, before)
    ctx.exit(code)
