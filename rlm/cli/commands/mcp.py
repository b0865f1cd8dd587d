"""`rlm mcp`: rlm as an MCP server, over standard input and output or over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .. import exit_codes
from ..options import change_options, overrides


@click.command("mcp", short_help="Serve questions about files over MCP, for coding agents.")
@click.argument("task_file", required=False, type=click.Path(dir_okay=False, exists=True), metavar="[TASK.YAML]")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    metavar="FOLDER",
    help="A folder whose files may be read. Repeatable. Default: the current folder; with --http there is none.",
)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP at http://HOST:PORT/mcp.")
@click.option("--token-env", metavar="NAME", help="The variable with the token of --http. Default: a new token.")
@click.option("--parallel", type=click.IntRange(1, 64), default=4, show_default=True, help="Questions at once.")
@change_options
def command(
    task_file: str | None,
    roots: tuple[str, ...],
    address: str | None,
    token_env: str | None,
    parallel: int,
    **options: Any,
) -> None:
    """Serve over MCP: tools to ask typed questions about files and folders of any length, to go on in a session, and to
    look at what was done. Answers come with evidence (path and line) and how far to trust them.

    What may be read are text files below the --root folders, and below the client's own roots where it has any. The
    models and limits are those of the options, or of TASK.YAML, whose signature and inputs are not used.

    \b
    Example:
      rlm mcp --root . --model openai/gpt-5-mini
      rlm mcp --root ~/notes --http 127.0.0.1:8765 --model openai/gpt-5-mini
    """
    from ...mcp.errors import require_mcp
    from .. import preflight

    require_mcp()
    if task_file is None and not options.get("model"):
        raise click.UsageError("Say which model answers: --model openai/gpt-5-mini; or give a task file.")
    if address is not None and not roots:
        raise click.UsageError("With --http, say which folders may be read: --root FOLDER.")
    if address is None and token_env is not None:
        raise click.UsageError("--token-env is for --http: a program that starts this one needs no token.")
    from ...mcp_server.app import make_server
    from ...mcp_server.documents import Documents, Folders
    from ...mcp_server.sessions import Settings, task_of

    changes = overrides(options)
    settings = Settings(changes.models, changes.budget, Path(task_file) if task_file else None, parallel)
    preflight.require(task_of(settings, Documents()))
    server = make_server(Folders(roots or ["."]), settings)
    if address is None:
        server.run("stdio")
        return
    host, port = _host_and_port(address)
    from ...mcp_server.http import serve_http

    serve_http(server, _token(token_env, host, port), host, port)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65_536:
        raise click.UsageError(f"--http is HOST:PORT, such as 127.0.0.1:8765, not {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _token(name: str | None, host: str, port: int) -> str:
    """Return the token; print a new one on standard error."""
    import os
    import secrets

    from ... import redaction

    token = secrets.token_urlsafe(32) if name is None else os.environ.get(name, "")
    if len(token) < 16:
        raise exit_codes.EnvironmentProblem(f"the variable {name} has no token of at least 16 characters")
    click.echo(f"http://{host}:{port}/mcp", err=True)
    if name is None:
        click.echo(f"Authorization: Bearer {token}", err=True)
    redaction.protect(token)
    return token
