"""`rlm eval retry`: run the failed runs of a log again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from ..eval_options import LogType, read
from ..options import cached
from .eval_run import shared_options


@click.command("retry", short_help="Run the failed runs of a log again.")
@click.argument("log", type=LogType(), metavar="LOG")
@click.option(
    "--ending",
    type=click.Choice(["Submitted", "Extracted", "Failed"], case_sensitive=False),
    help="Runs with this ending, instead of those that ended by an error.",
)
@shared_options
@click.pass_context
def command(ctx: click.Context, /, log: Path, ending: str | None, **options: Any) -> None:
    """Run again what ended by an error: a busy model, a lost connection, a sandbox that died. The rest stays.

    Inputs that are too long for their model are left out: they would be too long again.

    \b
    Example:
      rlm eval retry mini
      rlm eval retry mini --ending Failed
    """
    from ...evals.config import Evaluation
    from ...evals.log import EvalLogError
    from ..console import answer_only
    from ..eval_runner import evaluate

    before = read(log)
    if ending is None:
        chosen = {entry.key for entry in before.entries if entry.error is not None and not entry.too_long}
    else:
        chosen = {entry.key for entry in before.entries if entry.ending == ending}
    if not chosen:
        what = "ended by an error" if ending is None else f"ended as {ending}"
        click.echo(f"Nothing to run again: no run in {log} {what}.", err=True)
        return
    try:
        evaluation = Evaluation.from_header(before.header)
    except EvalLogError as error:
        raise click.UsageError(str(error)) from None
    except (KeyError, TypeError) as error:
        raise click.UsageError(f"{log}: its header does not describe the evaluation ({error})") from None
    again = ["rlm", "eval", "retry", str(log), *(["--ending", ending] if ending is not None else [])]
    with answer_only() as output, cached("off"):
        code = evaluate(evaluation, log, output, options, again=shlex.join(again), only=chosen)
    ctx.exit(code)
