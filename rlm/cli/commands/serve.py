"""`rlm serve`: tasks over HTTP, for programs, for clients of OpenAI's API, and for a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exit_codes
from ..options import cache_option, cached, change_options, overrides

if TYPE_CHECKING:
    from ...serve.tasks import ServedTask

_FREE = "rlm"
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)")
_PORT = 8420


def _seconds(context: click.Context, parameter: click.Parameter, text: str) -> float:
    from ...units import parse_duration

    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("serve", short_help="Serve tasks over HTTP: an API, OpenAI's API, a page.")
@click.argument("task_files", nargs=-1, metavar="[[NAME=]TASK.YAML]...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="0: any free one.")
@click.option("--address", metavar="URL", help="Where others reach the server, behind a proxy that has TLS.")
@click.option("--runs", type=click.IntRange(1), default=16, show_default=True, help="Runs at the same time.")
@click.option(
    "--open-sessions",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Sessions with a kernel; others wait on the disk.",
)
@click.option(
    "--idle",
    default="2m",
    show_default=True,
    metavar="TIME",
    callback=_seconds,
    help="After it, a session gives its kernel back.",
)
@change_options
@cache_option
def command(task_files: tuple[str, ...], **options: Any) -> None:
    """Serve tasks: start runs, ask in sessions, follow them, fetch results and traces. Ctrl-C ends it.

    Each TASK.YAML is a model under the name of its file, or under NAME. Without a file, `--model` answers questions
    about whatever is sent. Clients give inputs; what is done with them, by which models and within which budget, is
    said here. Every request needs a token: `rlm tokens add NAME`. Sessions outlive the server, also one that is killed.

    \b
    Example:
      rlm tokens add laptop
      rlm serve task.yaml
      rlm serve --model openai/gpt-5-mini
      curl -H "Authorization: Bearer rlm_..." http://127.0.0.1:8420/v1/models

    \b
    Exit codes: 0 ended, 2 bad file or usage, 3 internal error, 4 environment.
    """
    with cached(options["cache"]):
        _serve(_served(task_files, options), options)


def _served(task_files: tuple[str, ...], options: dict[str, Any]) -> dict[str, ServedTask]:
    from ...serve.tasks import ServedTask
    from ...task_session import task_of_inputs
    from ...tasks import TaskError, TaskProblem, load
    from .. import preflight

    changes = overrides({"inputs": {}, **options})
    served: dict[str, ServedTask] = {}
    if not task_files:
        if not options.get("model"):
            raise click.UsageError("Say what is served: a task file, or --model openai/gpt-5-mini.")
        try:
            task = task_of_inputs({}, changes.models, changes.budget)
        except TaskError as error:
            raise TaskError(TaskProblem("--model", problem.message) for problem in error.problems) from None
        served[_FREE] = ServedTask(_FREE, task, free=True)
    for given in task_files:
        match = None if Path(given).exists() else _NAMED.fullmatch(given)
        name, path = match.groups() if match is not None else (Path(given).stem, given)
        if name in served:
            raise click.UsageError(f"Two tasks are named {name}; give one another name: NAME={path}")
        served[name] = ServedTask(name, load(path, changes, partial=True))
    for served_task in served.values():
        _ = served_task.task.tools  # imported now: an error in them is an error of the task file
        preflight.require(served_task.task)
    return served


def _serve(served: dict[str, ServedTask], options: dict[str, Any]) -> None:
    from ...serve.context import ServerSettings
    from ...serve.store import ServerInUse

    host, port = options["host"], options["port"]
    settings = ServerSettings(options["runs"], options["open_sessions"], options["idle"])
    try:
        from ...serve.server import make_server

        server = make_server(served, host=host, port=port, address=options["address"], settings=settings)
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise exit_codes.EnvironmentProblem(
            f"the server needs {error.name}; `pip install 'rlm-kernel[viewer]'` installs it."
        ) from None
    except ServerInUse as error:
        raise exit_codes.EnvironmentProblem(str(error)) from None
    except OSError as error:
        where = f"{host}:{port}" if port else host
        raise exit_codes.EnvironmentProblem(f"cannot listen on {where}: {error.strerror or error}") from None
    if server.open_to_others and options["address"] is None:
        click.echo(
            f"Warning: {host} can be reached from other machines, without encryption: tokens and inputs can be read on "
            "the way. Put a proxy with TLS before it, and say its --address.",
            err=True,
        )
    click.echo(f"{server.address}/")
    click.echo(f"Models: {', '.join(served)}. Ctrl-C ends it.", err=True)
    if not server.context.tokens.all():
        click.echo("Nobody has a token yet: `rlm tokens add NAME` makes one.", err=True)
    server.run()
