"""A run on the command line: watched while it goes on, its ending printed, its exit code given."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import exits
from .driving import Outcome, View, drive
from .state import RunState

if TYPE_CHECKING:
    from ..repl.past import Past
    from ..tasks import Task

# What breaks a run off and no other answer of the model would have changed.
_ENVIRONMENT = {
    *("model:key", "model:billing", "model:model", "model:transport"),
    *("sandbox:IsolationUnavailable", "sandbox:KernelStartError"),
}


def run_and_show(task: Task, output: Any, options: Mapping[str, Any], past: Past | None = None) -> int:
    """Run a task, with what was said by `ending_options`; its exit code. `output` is where the ending goes."""
    import click

    from . import environment
    from .kept import how_to_go_on

    _ = task.tools  # imported now: a mistake in them is a mistake in the file
    environment.require(task)
    state = RunState()
    outcome = drive(task, _view(state, options["quiet"]), state, past=past)
    _print(outcome, task, output, options["as_json"])
    if outcome.interrupted:
        click.echo(how_to_go_on(outcome.result, str(task.path)), err=True)
        return exits.INTERRUPTED
    return _code(outcome, options["strict"])


def _view(state: Any, quiet: bool) -> View:
    from .lines import LineView, SilentView

    if quiet:
        return SilentView(state)
    if not sys.stderr.isatty():
        return LineView(sys.stderr, state)
    from rich.console import Console

    from .live import LiveView

    console = Console(stderr=True)
    return LineView(sys.stderr, state) if console.is_dumb_terminal else LiveView(console, state)


def _print(outcome: Outcome, task: Task, output: Any, as_json: bool) -> None:
    import json

    from .streams import safe_json

    if as_json:
        indent = 2 if output.isatty() else None
        text = outcome.result.to_json()
        output.write(
            safe_json(json.dumps(json.loads(text), indent=indent, ensure_ascii=False) if indent else text) + "\n"
        )
        return
    from rich.console import Console

    from .ending import show
    from .words import script_notice

    console = Console(file=output, highlight=False)
    if not console.is_terminal:
        console.width = 120
    with console.capture() as captured:
        show(console, outcome.result, iterations=len(outcome.state.iterations), notice=script_notice(task))
    output.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def _code(outcome: Outcome, strict: bool) -> int:
    from ..results import Extracted, Failed

    result = outcome.result
    if isinstance(result, Failed) and outcome.cause in _ENVIRONMENT:
        return exits.ENVIRONMENT
    if isinstance(result, Failed) or (strict and isinstance(result, Extracted)):
        return exits.NO_ANSWER
    return exits.ANSWERED
