"""`rlm check`: everything that `rlm run` does before it starts."""

from __future__ import annotations

from typing import Any

import click

from ..options import overrides, task_options


@click.command("check", short_help="Find the mistakes in a task file, without running it.")
@task_options
def command(task_file: str, **options: Any) -> None:
    """Report every mistake in a task file at once, with line, column and the fix.

    No model is asked and no code runs, except that the module of a signature class is imported.
    Files that are inputs are read; standard input is not. Names of models that are probably wrong and missing keys
    are warnings: the exit code is still 0.

    \b
    Example:
      rlm check task.yaml
      rlm check task.yaml -i doc=@report.txt
    """
    from ...tasks import load
    from ..console import clean, count, summary
    from ..preflight import model_warnings, size_warnings

    task = load(task_file, overrides(options), read_stdin=None)
    warnings = [*map(str, task.warnings), *model_warnings(task), *size_warnings(task)]
    for warning in warnings:
        click.echo(clean(f"warning: {warning}"), err=True)
    state = f"can be run, with {count(len(warnings), 'warning')}" if warnings else "is fine"
    click.echo(f"{task_file} {state}: {summary(task)}")
