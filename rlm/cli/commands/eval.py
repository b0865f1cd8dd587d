"""`rlm eval`: evaluations. One file a command."""

from __future__ import annotations

import click

from ..main import CommandGroup

_MODULES = {name: f"eval_{name}" for name in ("run", "compare", "retry", "view", "list", "calibrate")}


@click.group("eval", cls=CommandGroup, modules=_MODULES, short_help="Measure how good the answers are.")
def command() -> None:
    """Measure how good the answers are: suites of samples with known answers, run, scored, logged and compared.

    \b
    Example:
      rlm eval list
      rlm eval run needle --length 64k --model openai/gpt-5-mini --log with-repl
      rlm eval run needle --length 64k --model openai/gpt-5-mini --log direct --baseline direct
      rlm eval compare direct with-repl
      rlm eval view with-repl
    """
