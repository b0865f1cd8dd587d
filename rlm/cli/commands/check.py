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
    Files that are inputs are read; standard input is not.

    \b
    Example:
      rlm check task.yaml
      rlm check task.yaml -i doc=@report.txt
    """
    from ...tasks import load
    from ..formatting import summary

    task = load(task_file, overrides(options), read_stdin=None)
    click.echo(f"{task_file} is fine: {summary(task)}")
