"""`rlm run`: a task file to its ending. Progress goes to standard error, the ending to standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import exits
from .options import overrides, task_options

if TYPE_CHECKING:
    from ..results import ExecutionResult
    from ..tasks import Task
    from .driving import Outcome, View


@click.command("run", short_help="Run a task file.")
@task_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, and nothing else there.")
@click.option("--strict", is_flag=True, help="An extracted answer is no answer: exit code 1.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the ending.")
@click.pass_context
def command(ctx: click.Context, /, task_file: str, as_json: bool, strict: bool, quiet: bool, **options: Any) -> None:
    """Run a task file and print how it ended: submitted, extracted (with a confidence) or failed.

    \b
    Example:
      rlm run task.yaml
      rlm run task.yaml -i doc=@report.txt -i question="Who found the leak?"
      cat report.txt | rlm run task.yaml -i doc=@- --json | jq .outputs
      rlm run task.yaml --model openai/gpt-5-mini --max-iterations 5 --strict

    \b
    Exit codes: 0 answered, 1 no acceptable answer (with --strict, also an extracted one),
    2 bad file or usage, 3 internal error, 4 environment, 130 interrupted.
    """
    from ..tasks import load
    from . import environment
    from .streams import answer_only

    with answer_only() as output:
        task = load(task_file, overrides(options))
        _ = task.tools  # imported now: a mistake in them is a mistake in the file
        environment.require(task)
        outcome = _drive(task, quiet)
        _print(outcome, task, output, as_json)
    if outcome.interrupted:
        from .kept import keep

        click.echo(keep(outcome.result, task_file), err=True)
        ctx.exit(exits.INTERRUPTED)
    ctx.exit(_code(outcome.result, strict))


def _drive(task: Task, quiet: bool) -> Outcome:
    from .driving import drive
    from .state import RunState

    state = RunState()
    return drive(task, _view(state, quiet), state)


def _view(state: Any, quiet: bool) -> View:
    import sys

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


def _code(result: ExecutionResult[Any], strict: bool) -> int:
    from ..results import Extracted, Failed

    if isinstance(result, Failed) or (strict and isinstance(result, Extracted)):
        return exits.NO_ANSWER
    return exits.ANSWERED
