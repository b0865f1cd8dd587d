"""`rlm eval list`: the suites, or the logs in the default folder."""

from __future__ import annotations

import click


@click.command("list", short_help="List the suites, or the logs.")
@click.option("--logs", is_flag=True, help="List the logs in the default folder instead, the newest first.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
def command(logs: bool, as_json: bool) -> None:
    """List the suites that can be run, or with --logs the logs of evaluations.

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
    from ...evals.suites import ALL_SUITES, TEXT_SUITES
    from ..console import print_json, print_page

    if as_json:
        for suite in ALL_SUITES.values():
            print_json({"name": suite.name, "about": suite.about, "texts": suite.needs})
        return
    from ..pages.tables import facts_table

    print_page(facts_table(((suite.name, suite.about) for suite in ALL_SUITES.values()), name_style="bold"))
    click.echo(
        "\nRun one with `rlm eval run NAME --model MODEL`; a suite of your own is a JSONL file. "
        f"{', '.join(TEXT_SUITES)} are on real texts: --texts DIR.",
        err=True,
    )


def _logs(as_json: bool) -> None:
    from ...evals.log import EvalLogError, known_logs, logs_folder, read_log
    from ...evals.summary import summarize
    from ..console import clean, print_json, print_page
    from ..pages.evaluation import logs_table

    logs = []
    for folder in known_logs():
        try:
            logs.append(read_log(folder))
        except EvalLogError as error:
            click.echo(f"not read: {clean(str(error))}", err=True)
    if as_json:
        for log in logs:
            print_json({"log": str(log.folder), "header": log.header, "summary": summarize(log).to_dict()})
    elif not logs:
        click.echo(f"No logs in {logs_folder()} yet.", err=True)
    else:
        print_page(logs_table(logs))
