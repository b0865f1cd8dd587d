"""`rlm eval compare`: whether one log is better than another beyond chance."""

from __future__ import annotations

from pathlib import Path

import click

from ..eval_options import LogType, read


@click.command("compare", short_help="Compare two logs.")
@click.argument("first", type=LogType(), metavar="A")
@click.argument("second", type=LogType(), metavar="B")
@click.option(
    "--resamples", type=click.IntRange(100), default=10_000, show_default=True, help="The number of resamples."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the resamples.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(first: Path, second: Path, resamples: int, seed: int, as_json: bool) -> None:
    """Compare two logs on the samples that both have: the difference, its interval, and the samples that changed.

    \b
    Example:
      rlm eval compare direct with-repl
      rlm eval compare before after --json | jq .all
    """
    from ...evals.compare import compare_logs
    from ...evals.log import EvalLogError
    from ..console import print_json, print_page

    try:
        found = compare_logs(read(first), read(second), seed=seed, resamples=resamples)
    except EvalLogError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(found.to_dict())
        return
    from ..pages.eval_comparison import comparison_page

    print_page(comparison_page(found, resamples))
