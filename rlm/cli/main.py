"""The command `rlm`: its group, and how every command ends. Exceptions become messages and exit codes only here."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rlm import __version__

from . import console, exit_codes

_COMMANDS = (
    *(
        "run",
        "chat",
        "ask",
        "sessions",
        "serve",
        "mcp",
        "tokens",
        "batch",
        "resume",
        "replay",
        "fork",
        "runs",
        "view",
        "escalations",
    ),
    *("eval", "optimize", "check", "init", "models", "schema", "doctor", "completion"),
)
_OURS = ("rlm", "sandbox")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class CommandGroup(click.Group):
    """A group whose commands are modules of `rlm.cli.commands`, by name. A misspelt name gets a suggestion."""

    def __init__(self, *arguments: Any, modules: Mapping[str, str] | None = None, **options: Any) -> None:
        """`modules` has the module of each command; without it, commands are added as click does."""
        super().__init__(*arguments, **options)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*self._modules, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        command = importlib.import_module(f"{__package__}.commands.{self._modules[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; suggest one where there is none of that name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if args[0].startswith("-"):
                raise
            if args[0].endswith((".yaml", ".yml")):
                raise click.UsageError(f"To run a task file: `rlm run {args[0]}`.", ctx) from None
            from ..text import suggestion

            near = suggestion(args[0], self.list_commands(ctx))
            raise click.UsageError(f"No such command {args[0]!r}{near}", ctx) from None


@click.group(
    cls=CommandGroup,
    modules={name: name for name in _COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=exit_codes.EPILOG,
)
@click.version_option(__version__, "-V", "--version", prog_name="rlm", message="%(prog)s %(version)s")
def rlm() -> None:
    """Run language models on inputs of any length: the model writes code, the code runs in a sandbox.

    \b
    First steps:
      rlm doctor              what works on this machine
      rlm init                write a commented task.yaml
      rlm check task.yaml     find mistakes in it
      rlm run task.yaml       run it
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. This is the console script."""
    console.open_closed_streams()
    console.replace_unencodable()
    console.reword_library_warnings()
    code = guard(rlm, arguments)
    # While Python exits, another Ctrl-C ends it at once, without a traceback.
    atexit.register(signal.signal, signal.SIGINT, lambda *_: os._exit(exit_codes.INTERRUPTED))
    sys.exit(code)


def guard(command: click.Command, arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code, whatever it raises."""
    try:
        code = command.main(None if arguments is None else list(arguments), prog_name="rlm", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.ANSWERED
    except click.ClickException as error:
        error.show()
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt):
        _print_error("Interrupted.")
        return exit_codes.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone
        console.lead_nowhere(1)
        return exit_codes.NO_ANSWER
    except Exception as error:
        return explain(error)


def explain(error: Exception) -> int:
    """Print what went wrong on standard error, and return the exit code."""
    from sandbox.errors import IsolationUnavailable, KernelStartError

    from ..mcp.errors import McpServerError
    from ..models.local.gguf.errors import WeightsError
    from ..tasks.errors import TaskError

    if isinstance(error, TaskError):
        _print_error("\n".join(map(str, error.problems)))
        return exit_codes.USAGE
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        console.lead_nowhere(1)
        _print_error(f"rlm: nothing more can be written: {error}")
        return exit_codes.ENVIRONMENT
    if isinstance(error, exit_codes.EnvironmentProblem | McpServerError | WeightsError) or _is_local_model_error(error):
        _print_error(f"rlm: {error}")
        return exit_codes.ENVIRONMENT
    if isinstance(error, IsolationUnavailable | KernelStartError):
        _print_error(f"rlm: {error}\n`rlm doctor` shows what works here and how to change it.")
        return exit_codes.ENVIRONMENT
    if isinstance(error, ModuleNotFoundError) and (error.name or "rlm").partition(".")[0] not in _OURS:
        advice = exit_codes.missing_package_advice()
        _print_error(f"rlm: the package {error.name!r} is missing; `{advice}` installs everything.")
        return exit_codes.ENVIRONMENT
    if os.environ.get("RLM_DEBUG") == "1":
        traceback.print_exception(error)
    else:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        _print_error(
            f"rlm: internal error{_place_of(error)}: {what}. Please report it with the output of `rlm doctor` and of "
            "the same command with RLM_DEBUG=1."
        )
    return exit_codes.INTERNAL


def _is_local_model_error(error: Exception) -> bool:
    # Compared by name: its module imports dspy, which takes seconds.
    return any(kind.__name__ == "LocalModelError" for kind in type(error).__mro__)


def _place_of(error: Exception) -> str:
    """Return the file and line in our code where an error was raised."""
    root = Path(__file__).parents[2]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(root) and file.relative_to(root).parts[0] in _OURS:
            return f" in {file.relative_to(root).as_posix()}:{frame.lineno}"
    return ""


def _print_error(text: str) -> None:
    from .console import clean

    try:
        click.echo(clean(text), err=True)
    except OSError:  # the exit code is left
        console.lead_nowhere(2)
