"""A run on the command line: shown while it runs, interrupted by Ctrl-C, its ending printed, its exit code returned."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import exit_codes

if TYPE_CHECKING:
    from ..events import Event, TriggerFired
    from ..repl.replay import RecordedRun
    from ..results import ExecutionResult
    from ..tasks import Task
    from .progress.lines import View
from ..events import Observer, ignore
from .exit_codes import EnvironmentProblem

T = TypeVar("T")
FLUSH_S = 10.0
# Causes of a failure that no other answer of the model would have avoided.
_ENVIRONMENT = {
    *("model:key", "model:billing", "model:model", "model:transport"),
    *("sandbox:IsolationUnavailable", "sandbox:KernelStartError"),
}


# Causes that a later attempt may avoid: the provider was busy or could not be reached.
_TEMPORARY = {"model:rate", "model:server", "model:timeout", "model:transport"}


def run_and_show(task: Task, output: Any, options: Mapping[str, Any], past: RecordedRun | None = None) -> int:
    """Run a task with the options of `ending_options` and return the exit code. The ending goes to `output`."""
    from ..runner import save_outputs
    from . import preflight
    from .console import print_json, print_page, script_notice
    from .progress.lines import choose_view

    _ = task.tools  # imported now: an error in them is an error of the task file
    preflight.require(task)
    for warning in preflight.size_warnings(task):
        click.echo(f"warning: {warning}", err=True)
    fired: list[TriggerFired] = []
    result, interrupted = _run(task, choose_view(options["quiet"]), past, fired)
    if options["as_json"]:
        print_json(json.loads(result.to_json()), output, indent=2 if output.isatty() else None)
    else:
        from .pages.result import result_page

        print_page(result_page(result, notice=script_notice(task)), output)
    for line in save_outputs(task, result):
        click.echo(line, err=True)
    if interrupted:
        click.echo(_how_to_resume(result, str(task.path)), err=True)
        return exit_codes.INTERRUPTED
    if advice := _retry_advice(result) or (None if task.models.scripted else _budget_advice(result, fired)):
        click.echo(advice, err=True)
    if not options["quiet"] and (advice := _mode_advice(task, result)):
        click.echo(advice, err=True)
    return exit_code(result, options["strict"])


async def until_interrupted(work: Awaitable[T], cancel: Callable[[], None]) -> tuple[T, bool]:
    """Return the result of work, and whether Ctrl-C was pressed. The first Ctrl-C cancels, a second one raises."""
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt
        cancel()

    with _on_interrupt(interrupt):
        return await work, interrupts > 0


def _run(
    task: Task, view: View, past: RecordedRun | None, fired: list[TriggerFired]
) -> tuple[ExecutionResult[Any], bool]:
    """Run a task; return its result, and whether it was interrupted. `fired` gets the limits that ended runs."""
    from ..events import TriggerFired, fan_out
    from ..runner import make_run
    from ..traces.writer import TraceWriter, default_observer

    def keep_reason(event: Event) -> None:
        if isinstance(event, TriggerFired):
            fired.append(event)

    writer, spans = default_observer(), telemetry()
    if task.mcp is not None:
        from .approval_prompt import ask_at_terminal

        ask_at_terminal(task, view)
    view.start(task)
    try:
        observers = (writer, guarded(view), spans, _cost_observer(task, view), keep_reason)
        run = make_run(task, observe=fan_out(*observers), past=past)
        return asyncio.run(until_interrupted(run, run.cancel))
    finally:
        view.stop()
        if isinstance(writer, TraceWriter):
            writer.flush(FLUSH_S)


@contextlib.contextmanager
def _on_interrupt(handler: Callable[[], None]) -> Iterator[None]:
    """Call the handler on Ctrl-C, where this is the main thread: others receive no signals."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, handler)
    except (ValueError, RuntimeError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _cost_observer(task: Task, view: View) -> Observer:
    """Return an observer that warns once if the limit on the cost does not count a call."""
    from ..events import ModelAnswered
    from .preflight import CostWarning, costs_money

    limited = task.trigger.max_cost_usd is not None and costs_money(task)
    warning = CostWarning(limited, view.say, "max_cost_usd")

    def observe(event: Event) -> None:
        if isinstance(event, ModelAnswered) and not event.cached and not event.past:
            warning.check("this run", {"unpriced_calls": event.cost_usd is None})

    return observe if limited else ignore


def guarded(view: View) -> Callable[[Event], None]:
    """Return the view's `observe`; if it raises, the run continues without the view."""
    failed = False

    def observe(event: Event) -> None:
        nonlocal failed
        if failed:
            return
        try:
            view.observe(event)
        except Exception as error:
            if os.environ.get("RLM_DEBUG") == "1":
                raise
            failed = True
            view.stop()
            message = f"rlm: the view stopped ({type(error).__name__}: {error}); the run continues"
            print(message, file=sys.stderr)  # noqa: T201

    return observe


def exit_code(result: ExecutionResult[Any], strict: bool) -> int:
    """Return the exit code of a result; with `strict`, only an answer that can be relied on is one."""
    from ..results import Failed

    if isinstance(result, Failed) and str(result.cause) in _ENVIRONMENT:
        return exit_codes.ENVIRONMENT
    if isinstance(result, Failed) or (strict and not result.is_reliable):
        return exit_codes.NO_ANSWER
    return exit_codes.ANSWERED


def _retry_advice(result: ExecutionResult[Any]) -> str | None:
    """Return how to continue a run that failed because of its provider; None for any other."""
    from ..events import ignore
    from ..results import Failed
    from ..traces.writer import default_observer

    if not isinstance(result, Failed) or str(result.cause) not in _TEMPORARY:
        return None
    if not result.run_id or not result.history or default_observer() is ignore:
        return None
    return f"To continue when the model can be reached: rlm resume {result.run_id}"


def _mode_advice(task: Task, result: ExecutionResult[Any]) -> str | None:
    """Return that `--mode auto` would probably have helped, and why; None where it would not."""
    from ..reading.choice import advice
    from ..results import Submitted

    if task.mode != "repl" or task.models.scripted or result.usage is None or not result.history:
        return None
    usage, answered = result.usage, isinstance(result, Submitted)
    why = advice(task.inputs, None, answered=answered, tokens=usage.tokens, calls=usage.llm_calls)
    return None if why is None else f"{why}: try --mode auto (or `mode: auto` in the task file)"


def _budget_advice(result: ExecutionResult[Any], fired: Sequence[TriggerFired]) -> str | None:
    """Return how to continue a run that a limit ended, with the number to raise; None for any other."""
    from ..events import ignore
    from ..results import Extracted, Failed
    from ..traces.writer import default_observer

    if isinstance(result, Extracted):
        reason = result.reason
    elif (
        isinstance(result, Failed)
        and result.history
        and (own := [event for event in fired if event.run_id == result.run_id])
    ):
        reason = own[-1].reason
    else:
        return None
    if not reason.limit or not result.run_id or default_observer() is ignore:
        return None
    option = "--" + reason.setting.replace("_", "-")
    return f"To continue with a larger budget: rlm resume {result.run_id} {option} {2 * reason.limit:.10g}"


def _how_to_resume(result: ExecutionResult[Any], task_file: str) -> str:
    """Return that nothing of an interrupted run is lost, and how to resume it."""
    from ..events import ignore
    from ..traces.writer import default_observer
    from .console import count

    if not result.run_id:
        return f"Interrupted before the run started. To start it: rlm run {task_file}"
    done = count(len(result.history), "iteration")
    if default_observer() is ignore:
        return f"Interrupted after {done}. Nothing was recorded (RLM_TRACE is off). To start again: rlm run {task_file}"
    return f"Interrupted. Run {result.run_id} is recorded ({done}).\nTo continue: rlm resume {result.run_id}"


_OFF = ("", "0", "off", "no", "false")


def telemetry() -> Observer:
    """Return an observer that creates spans, if the environment asks for it, or one that ignores events."""
    if os.environ.get("RLM_OTEL", "").strip().lower() in _OFF:
        return ignore
    from ..telemetry import TelemetryMissing, spans

    try:
        return spans()
    except TelemetryMissing as error:
        raise EnvironmentProblem(f"RLM_OTEL is set, but {error}") from None
