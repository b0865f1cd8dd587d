"""An evaluation on the command line: run with its progress shown, stopped by Ctrl-C, and summarized."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import exit_codes
from .console import count, print_json, print_page
from .preflight import CostWarning, costs_money

if TYPE_CHECKING:
    from ..evals.config import Evaluation
    from ..evals.log import EvalLog, LogEntry
    from ..evals.run import EvaluationRun

_FLUSH_S = 30.0


@dataclass(frozen=True)
class _Ending:
    """How an evaluation ended, if not with the last sample."""

    interrupted: bool = False
    failure: str | None = None
    left: int = 0
    """Runs that were not started because of `--max-cost`."""


def evaluate(
    evaluation: Evaluation,
    folder: Path,
    output: Any,
    options: Mapping[str, Any],
    *,
    again: str,
    only: Collection[tuple[str, int]] | None = None,
) -> int:
    """Run the missing runs of an evaluation, or `only` some, and return the exit code.

    `again` is the command that continues it.
    """
    from ..batch.errors import not_writable
    from ..evals.log import EvalLogError, LogWriteError, read_log
    from ..evals.run import open_evaluation
    from . import preflight

    preflight.require(evaluation.settings.check())
    try:
        with open_evaluation(evaluation, folder, only=only) as run:
            ending = _run(run, options)
            summary = run.finish()
            log = read_log(folder)
    except LogWriteError as error:
        cause = error.__cause__
        assert isinstance(cause, OSError)
        problem = not_writable(f"the log {folder}", cause, "use another --log")
        raise exit_codes.EnvironmentProblem(f"{problem}. Its entries are safe.") from None
    except EvalLogError as error:
        raise click.UsageError(str(error)) from None
    if options["as_json"]:
        print_json({"log": str(folder), "complete": log.complete, "summary": summary.to_dict()}, output)
    else:
        from .pages.evaluation import summary_page

        print_page(summary_page(log.header, summary), output)
    return _report(ending, log, again, options)


def _run(run: EvaluationRun, options: Mapping[str, Any]) -> _Ending:
    from ..events import fan_out
    from ..traces.writer import TraceWriter, default_observer
    from .progress.evaluation import progress_of
    from .runner import telemetry

    counts = f"{count(run.todo, 'run')} to do" + (f", {len(run.kept):,} done before" if run.kept else "")
    click.echo(f"Log: {run.writer.folder} ({counts})", err=True)
    recorder = default_observer()
    max_cost = options["max_cost"]
    total = len(run.kept) + run.todo
    with progress_of(run.header, run.kept, total, run.replaced, options["quiet"]) as progress:
        paid = max_cost is not None and costs_money(run.evaluation.settings.check())
        warning = CostWarning(paid, progress.say)
        earlier = sum(entry.usage.get("unpriced_calls") or 0 for entry in (*run.kept, *run.replaced))
        warning.check("earlier runs", {"unpriced_calls": earlier})

        def is_spent() -> bool:
            return max_cost is not None and progress.cost >= max_cost

        def add(entry: LogEntry) -> None:
            progress.add(entry)
            warning.check(entry.sample_id, entry.usage)

        observe = fan_out(recorder, telemetry())
        work = run.run(add, at_once=options["at_once"], observe=observe, should_stop=is_spent)
        ending = asyncio.run(_drive(work))
        if progress.runs < progress.total and is_spent():
            ending = replace(ending, left=progress.total - progress.runs)
    if isinstance(recorder, TraceWriter):
        recorder.flush(_FLUSH_S)
    return ending


async def _drive(work: Coroutine[Any, Any, None]) -> _Ending:
    from ..evals.runner import EvaluationStopped
    from .runner import until_interrupted

    task = asyncio.ensure_future(work)

    def cancel() -> None:
        task.cancel()

    try:
        _, interrupted = await until_interrupted(task, cancel)
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
        interrupted = True
    except EvaluationStopped as error:
        return _Ending(failure=str(error))
    return _Ending(interrupted=interrupted)


def _report(ending: _Ending, log: EvalLog, again: str, options: Mapping[str, Any]) -> int:
    done = f"{len(log.entries):,} of {count(log.total, 'run')} {'are' if log.total > 1 else 'is'} in the log"
    if ending.failure is not None:
        raise exit_codes.EnvironmentProblem(f"{ending.failure}\n{done}. To continue: {again}")
    if ending.interrupted:
        click.echo(f"Interrupted. {done}; nothing is lost.\nTo continue: {again}", err=True)
        return exit_codes.INTERRUPTED
    if ending.left:
        spent = f"Stopped: ${options['max_cost']:g} is spent (--max-cost)."
        left = f"{count(ending.left, 'run')} {'was' if ending.left == 1 else 'were'} not started"
        click.echo(f"{spent} {done}. {left}.\nTo continue with a larger --max-cost: {again}", err=True)
        return exit_codes.NO_ANSWER
    if not log.complete:  # `only` some runs were repeated
        click.echo(f"{done}. The command that started it runs the rest.", err=True)
        return exit_codes.NO_ANSWER
    errors = [entry for entry in log.entries if entry.error is not None and not entry.too_long]
    if errors:
        retry = shlex.join(["rlm", "eval", "retry", str(log.folder)])
        click.echo(f"{count(len(errors), 'run')} ended by an error. To run them again: {retry}", err=True)
        return exit_codes.NO_ANSWER
    return exit_codes.ANSWERED
