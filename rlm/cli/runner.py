"""A run on the command line: watched while it goes on, its ending printed, its exit code given."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import exit_codes
from .progress.state import RunState
from .run_control import Outcome, View, drive

if TYPE_CHECKING:
    from ..repl.replay import Past
    from ..tasks import Task

# What breaks a run off and no other answer of the model would have changed.
_ENVIRONMENT = {
    *("model:key", "model:billing", "model:model", "model:transport"),
    *("sandbox:IsolationUnavailable", "sandbox:KernelStartError"),
}


def run_and_show(task: Task, output: Any, options: Mapping[str, Any], past: Past | None = None) -> int:
    """Run a task, with what was said by `ending_options`; its exit code. `output` is where the ending goes."""
    import click

    from . import preflight
    from .interrupted import how_to_go_on

    _ = task.tools  # imported now: a mistake in them is a mistake in the file
    preflight.require(task)
    state = RunState()
    outcome = drive(task, _view(state, options["quiet"]), state, past=past)
    _print(outcome, task, output, options["as_json"])
    if outcome.interrupted:
        click.echo(how_to_go_on(outcome.result, str(task.path)), err=True)
        return exit_codes.INTERRUPTED
    return _code(outcome, options["strict"])


def _view(state: Any, quiet: bool) -> View:
    from .progress.lines import LineView, SilentView

    if quiet:
        return SilentView(state)
    if not sys.stderr.isatty():
        return LineView(sys.stderr, state)
    from rich.console import Console

    from .progress.live import LiveView

    console = Console(stderr=True)
    return LineView(sys.stderr, state) if console.is_dumb_terminal else LiveView(console, state)


def _print(outcome: Outcome, task: Task, output: Any, as_json: bool) -> None:
    import json

    from .console import print_json, print_page

    if as_json:
        print_json(json.loads(outcome.result.to_json()), output, indent=2 if output.isatty() else None)
        return
    from .formatting import script_notice
    from .pages.result import result_page

    page = result_page(outcome.result, iterations=len(outcome.state.iterations), notice=script_notice(task))
    print_page(page, output)


def _code(outcome: Outcome, strict: bool) -> int:
    from ..results import Extracted, Failed

    result = outcome.result
    if isinstance(result, Failed) and str(result.cause) in _ENVIRONMENT:
        return exit_codes.ENVIRONMENT
    if isinstance(result, Failed) or (strict and isinstance(result, Extracted)):
        return exit_codes.NO_ANSWER
    return exit_codes.ANSWERED
