"""A run on the command line: watched while it goes on, its ending printed, its exit code given."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import exit_codes
from .progress.state import RunState
from .run_control import Outcome, View, drive

if TYPE_CHECKING:
    from ..repl.replay import RecordedRun
    from ..results import ExecutionResult
    from ..tasks import Task

# What breaks a run off and no other answer of the model would have changed.
_ENVIRONMENT = {
    *("model:key", "model:billing", "model:model", "model:transport"),
    *("sandbox:IsolationUnavailable", "sandbox:KernelStartError"),
}


def run_and_show(task: Task, output: Any, options: Mapping[str, Any], past: RecordedRun | None = None) -> int:
    """Run a task, with what was said by `ending_options`; its exit code. `output` is where the ending goes."""
    import click

    from . import preflight

    _ = task.tools  # imported now: a mistake in them is a mistake in the file
    preflight.require(task)
    state = RunState()
    outcome = drive(task, _view(state, options["quiet"]), state, past=past)
    _print(outcome, task, output, options["as_json"])
    if outcome.interrupted:
        click.echo(_how_to_resume(outcome.result, str(task.path)), err=True)
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

    page = result_page(outcome.result, iterations=outcome.result.iterations, notice=script_notice(task))
    print_page(page, output)


def _code(outcome: Outcome, strict: bool) -> int:
    from ..results import Extracted, Failed

    result = outcome.result
    if isinstance(result, Failed) and str(result.cause) in _ENVIRONMENT:
        return exit_codes.ENVIRONMENT
    if isinstance(result, Failed) or (strict and isinstance(result, Extracted)):
        return exit_codes.NO_ANSWER
    return exit_codes.ANSWERED


def _how_to_resume(result: ExecutionResult[Any], task_file: str) -> str:
    """Say of an interrupted run that nothing is lost, and how to resume it."""
    from ..events import ignore
    from ..traces.default_writer import default_observer
    from .formatting import count

    if not result.run_id:
        return f"Interrupted before the run began. To start it: rlm run {task_file}"
    done = count(len(result.history), "iteration")
    if default_observer() is ignore:
        return f"Interrupted after {done}. Nothing was recorded (RLM_TRACE is off). To start again: rlm run {task_file}"
    return f"Interrupted. Run {result.run_id} is on record ({done}).\nTo go on: rlm resume {result.run_id}"
