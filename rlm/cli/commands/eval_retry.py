"""`rlm eval retry`: what failed in a log, run again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from ..eval_options import LogType, read
from ..options import cached
from .eval_run import shared_options


@click.command("retry", short_help="Run again what failed in a log.")
@click.argument("log", type=LogType(), metavar="LOG")
@click.option(
    "--ending",
    type=click.Choice(["Submitted", "Extracted", "Failed"], case_sensitive=False),
    help="Runs that ended like this, instead of those that an error broke off.",
)
@shared_options
@click.pass_context
def command(ctx: click.Context, /, log: Path, ending: str | None, **options: Any) -> None:
    """Run again what an error broke off: a busy model, a lost connection, a sandbox that died. The rest stays.

    An input that is too long for its model is no such error: it would be too long again.

    \b
    Example:
      rlm eval retry mini
      rlm eval retry mini --ending Failed
    """
    from ...evals.config import Evaluation
    from ...evals.log import LogError
    from ..console import answer_only
    from ..eval_runner import evaluate

    before = read(log)
    if ending is None:
        chosen = {one.key for one in before.entries if one.error is not None and not one.too_long}
    else:
        chosen = {one.key for one in before.entries if one.ending == ending}
    if not chosen:
        what = "broke off by an error" if ending is None else f"ended as {ending}"
        click.echo(f"Nothing to run again: no run in {log} {what}.", err=True)
        return
    try:
        evaluation = Evaluation.of(before.header)
    except LogError as error:
        raise click.UsageError(str(error)) from None
    except (KeyError, TypeError) as error:
        raise click.UsageError(f"{log}: its header does not say how it was begun ({error})") from None
    again = ["rlm", "eval", "retry", str(log), *(["--ending", ending] if ending is not None else [])]
    with answer_only() as output, cached("off"):
        code = evaluate(evaluation, log, output, options, again=shlex.join(again), only=chosen)
    ctx.exit(code)
