"""`rlm fork`: the same start as a run on record, and another way on."""

from __future__ import annotations

from typing import Any

import click

from ..options import change_options, ending_options


@click.command("fork", short_help="Take a run on record another way from some iteration.")
@click.argument("run_id", metavar="RUN")
@click.option("--at", "at", type=click.IntRange(min=0), required=True, metavar="N", help="Keep the first N iterations.")
@change_options
@ending_options
@click.pass_context
def command(ctx: click.Context, /, run_id: str, at: int, **options: Any) -> None:
    """Keep the first N iterations of a run on record and go another way from there: another model, another budget.

    The recorded run stays as it is; the fork is a run of its own.

    \b
    Example:
      rlm fork 3f2a --at 3 --model openai/gpt-5
    """
    from ...traces import past
    from ..console import answer_only
    from ..recorded_tasks import recorded_task, usable
    from ..runner import run_and_show

    with answer_only() as output:
        run = usable(run_id)
        before = past(run, iterations=at)
        if len(before.iterations) < at:
            raise click.UsageError(f"run {run.id} has {len(before.iterations)} iterations; --at {at} is past its end")
        task = recorded_task(run, options)
        click.echo(f"Run {run.id} is taken another way after iteration {at}.", err=True)
        code = run_and_show(task, output, options, before)
    ctx.exit(code)
