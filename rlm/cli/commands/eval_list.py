"""`rlm eval list`: the suites, or the logs in the usual place."""

from __future__ import annotations

import json

import click


@click.command("list", short_help="List the suites, or the logs.")
@click.option("--logs", is_flag=True, help="The logs in the usual place instead, the newest first.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
def command(logs: bool, as_json: bool) -> None:
    """List the suites that can be run, or with --logs what has been run.

    \b
    Example:
      rlm eval list
      rlm eval list --logs
    """
    if logs:
        _logs(as_json)
    else:
        _suites(as_json)


def _suites(as_json: bool) -> None:
    from ...evals.suites import SUITES

    if as_json:
        for one in SUITES.values():
            click.echo(json.dumps({"name": one.name, "about": one.about}))
        return
    from rich.table import Table

    from ..pages.evaluation import show

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for one in SUITES.values():
        table.add_row(one.name, one.about)
    show(table)
    click.echo("\nRun one with `rlm eval run NAME --model MODEL`; a suite of your own is a JSONL file.", err=True)


def _logs(as_json: bool) -> None:
    from ...evals.log import LogError, known_logs, logs_folder, read_log
    from ...evals.summary import summarize
    from ..formatting import clean
    from ..pages.evaluation import logs_table, show

    found = []
    for folder in known_logs():
        try:
            found.append(read_log(folder))
        except LogError as error:
            click.echo(f"not read: {clean(str(error))}", err=True)
    if as_json:
        for log in found:
            about = {"log": str(log.folder), "header": log.header, "summary": summarize(log).to_dict()}
            click.echo(json.dumps(about))
    elif not found:
        click.echo(f"No logs in {logs_folder()} yet.", err=True)
    else:
        show(logs_table(found))
