"""`rlm view`: recorded runs in a browser, or one run as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exit_codes
from ..console import write_file
from ..recorded_tasks import find_run

if TYPE_CHECKING:
    from ...traces import RunRecord


@click.command("view", short_help="Look at recorded runs in a browser.")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; a free one if none is given.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--no-open", is_flag=True, help="Only print the address.")
@click.option("--export", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write RUN to one HTML file.")
def command(run_id: str | None, port: int, host: str, no_open: bool, target: Path | None) -> None:
    """Look at recorded runs in a browser, also while they run. Ctrl-C ends it.

    \b
    Example:
      rlm view                              all runs
      rlm view 7fb3                         one run, by the beginning of its id
      rlm view 7fb3 --export run.html       one file that needs no server
    """
    run = None if run_id is None else find_run(run_id)
    if target is not None:
        if run is None:
            raise click.UsageError("Say which run to export: rlm view RUN --export run.html")
        _export(run, target)
        return
    serve(f"#/run/{run.id}" if run is not None else "", host, port, no_open)


def _export(run: RunRecord, target: Path) -> None:
    from ...viewer.export import export_page

    page = export_page(run)
    write_file(target, page.text)
    for note in page.notes:
        click.echo(note, err=True)


def serve(place: str, host: str, port: int, no_open: bool, log: Path | None = None) -> None:
    """Serve the page until Ctrl-C and open it at `place`. With the log of an evaluation, it has a table of that."""
    try:
        from ...viewer.server import make_server, open_browser

        server = make_server(host=host, port=port, log=log)
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise exit_codes.EnvironmentProblem(
            f"the page needs {error.name}; `pip install 'rlm-kernel[viewer]'` installs it. "
            "`rlm runs show RUN` shows a run here, and `rlm view RUN --export run.html` needs no server."
        ) from None
    except OSError as error:
        where = f"{host}:{port}" if port else host
        raise exit_codes.EnvironmentProblem(f"cannot listen on {where}: {error.strerror or error}") from None
    if server.open_to_others:
        click.echo(
            f"Warning: {host} can be reached from other machines, without encryption. Everyone who has the address "
            "below can read every recorded run. Over ssh, `ssh -L` to a loopback port is safer.",
            err=True,
        )
    address = server.address + place
    click.echo(address)
    click.echo("Ctrl-C ends it.", err=True)
    if not no_open:
        open_browser(address)
    server.run()
