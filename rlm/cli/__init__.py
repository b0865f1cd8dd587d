"""`rlm`: the command line. One file a command; each is imported when it is used, and heavier things only inside it."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from rlm import __version__

from . import console, exit_codes

_COMMANDS = (
    *("run", "batch", "resume", "replay", "fork", "runs", "view", "escalations"),
    *("eval", "check", "init", "models", "schema", "doctor", "completion"),
)


class _Commands(click.Group):
    """Commands by the name of their module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f".commands.{cmd_name}", __name__).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if args and args[0].endswith((".yaml", ".yml")):
                raise click.UsageError(f"To run a task file, say `rlm run {args[0]}`.", ctx) from None
            raise


@click.group(
    cls=_Commands,
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
      rlm check task.yaml     say what is wrong with it, if anything
      rlm run task.yaml       run it
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    console.open_all()
    console.forgive()
    code = exit_codes.guard(rlm, arguments)
    # While Python ends, another Ctrl-C ends it at once, without a traceback.
    atexit.register(signal.signal, signal.SIGINT, lambda *_: os._exit(exit_codes.INTERRUPTED))
    sys.exit(code)
