"""`rlm eval`: how good it is. One file a command; each is imported when it is used."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import click

_COMMANDS = {
    "run": "eval_run",
    "compare": "eval_compare",
    "retry": "eval_retry",
    "view": "eval_view",
    "list": "eval_list",
    "calibrate": "eval_calibrate",
}


class _Commands(click.Group):
    """Commands by the names of their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, module in _COMMANDS.items() if find_spec(f"{__package__}.{module}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f".{_COMMANDS[cmd_name]}", __package__).command
        assert isinstance(command, click.Command)
        return command


@click.group("eval", cls=_Commands, short_help="Measure how good it is.")
def command() -> None:
    """Measure how good it is: suites of samples with known answers, run, scored, logged and compared.

    \b
    Example:
      rlm eval list
      rlm eval run needle --length 64k --model openai/gpt-5-mini --log with-repl
      rlm eval run needle --length 64k --model openai/gpt-5-mini --log direct --baseline direct
      rlm eval compare direct with-repl
      rlm eval view with-repl
    """
