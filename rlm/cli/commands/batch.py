"""`rlm batch`: run many tasks. Progress on standard error, the summary on standard output, the results in a file."""

from __future__ import annotations

from typing import Any

import click

from ..options import NumberRange, cache_option, change_options, overrides


@click.command("batch", short_help="Run many tasks: task files, lines of tasks, or one task over rows.")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False), metavar="TASKS.JSONL|TASK.YAML...")
@click.option(
    "--over", type=click.Path(dir_okay=False), metavar="ROWS.CSV", help="Rows (.csv or .jsonl): columns are inputs."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The results, one line of JSON for each item.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N items.")
@click.option(
    "--max-cost",
    type=NumberRange(0),
    metavar="USD",
    help="Start no more items once all attempts together have cost this.",
)
@click.option(
    "--fail-on-error",
    type=NumberRange(0, 1),
    metavar="SHARE",
    help="Stop when more than this share of all items has failed.",
)
@click.option("--retry-failed", is_flag=True, help="Run items again that failed or were lost.")
@click.option("--skip", multiple=True, metavar="COLUMN", help="A column that is not an input. Repeatable.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes. Default: as many as processors.")
@click.option("--at-once", type=click.IntRange(1), metavar="N", help="Items at a time in each process. Default: 4.")
@click.option(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="What runs the items."
)
@click.option("--ray-address", metavar="ADDRESS", help="A Ray cluster; without it, one is started on this machine.")
@cache_option
@change_options
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the summary.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object.")
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], **options: Any) -> None:
    """Run many tasks, and write the result of each to a file as it ends.

    Items are task files; or lines of a .jsonl file, each a task or {"task": "task.yaml", "inputs": {...}}; or the rows
    of --over, where each column is an input of the one task file. A column `doc:file` names files to read `doc` from;
    a column `id` names the row.

    Run the same command again after an interruption or a crash, and it runs only what is missing. An item runs again
    if its inputs, its task, models, scripts, budget or policy have changed, or the files of its tools, with the modules
    beside the task file that they import; not for other modules, nor for data that tools read.

    \b
    Example:
      rlm batch task.yaml --over rows.csv
      rlm batch tasks/*.yaml --output results.jsonl --workers 4
      rlm batch tasks.jsonl --max-cost 5 --fail-on-error 0.1
      rlm batch task.yaml --over rows.csv --retry-failed

    \b
    Exit codes: 0 done, 1 items failed (more than --fail-on-error) or --max-cost was reached,
    2 bad file or usage, 3 internal error, 4 environment, 130 interrupted.
    """
    from ..batch_runner import run_batch
    from ..console import answer_only

    if options["ray_address"] is not None and options["engine"] != "ray":
        raise click.UsageError("--ray-address needs --engine ray")
    with answer_only() as output:
        code = run_batch(files, overrides(options), options, output)
    ctx.exit(code)
