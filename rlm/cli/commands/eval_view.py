"""`rlm eval view`: an evaluation log in a browser; each row of its table opens the trace of a run."""

from __future__ import annotations

from pathlib import Path

import click

from ..eval_options import LogType, read


@click.command("view", short_help="Look at a log in a browser.")
@click.argument("log", type=LogType(), metavar="LOG")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; a free one if none is given.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--no-open", is_flag=True, help="Only print the address.")
def command(log: Path, port: int, host: str, no_open: bool) -> None:
    """Look at a log in a browser, also while it is written: scores by length, and every sample. Ctrl-C ends it.

    \b
    Example:
      rlm eval view with-repl
      rlm eval view needle-2026 --port 8600 --no-open
    """
    from .view import serve

    read(log)  # a broken log is reported here and not on the page
    serve("#/eval", host, port, no_open, log)
