"""An evaluation on the command line: run with its progress shown, stopped by Ctrl-C, and summarized."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import exit_codes
from .console import print_json, print_page
from .cost_warning import CostWarning, costs_money
from .formatting import count

if TYPE_CHECKING:
    from ..evals.config import Evaluation
    from ..evals.log import Entry, EvalLog
    from ..evals.runner import Work

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
    from ..evals.log import EvalLogError, read_log
    from ..evals.log_writer import LogWriter
    from ..evals.summary import summarize
    from . import preflight

    preflight.require(evaluation.settings.check())
    try:
        header = {**evaluation.header(), "started": _now()}
        with contextlib.ExitStack() as stack:
            with _explained(folder):
                writer = stack.enter_context(LogWriter(folder, header))
            ending, log = _run(evaluation, writer, read_log(folder), options, only)
            summary = summarize(log)
            with _explained(folder):
                writer.summarize(summary.to_dict())
    except EvalLogError as error:
        raise click.UsageError(str(error)) from None
    if options["as_json"]:
        print_json({"log": str(folder), "complete": log.complete, "summary": summary.to_dict()}, output)
    else:
        from .pages.evaluation import summary_page

        print_page(summary_page(log.header, summary), output)
    return _report(ending, log, again, options)


def _run(
    evaluation: Evaluation,
    writer: Any,
    before: EvalLog,
    options: Mapping[str, Any],
    only: Collection[tuple[str, int]] | None,
) -> tuple[_Ending, EvalLog]:
    from ..evals import runner
    from ..evals.log import read_log
    from ..events import fan_out
    from ..traces.default_writer import default_observer
    from ..traces.writer import TraceWriter
    from .progress.evaluation import progress_of
    from .telemetry import telemetry

    done = {entry.key for entry in before.entries}
    work: Iterator[Work]
    if only is None:
        work, entries, others = runner.missing(evaluation, done), before.entries, before.replaced
        todo = before.expected - len(done)
    else:
        repeated = tuple(entry for entry in before.entries if entry.key in only)
        work, entries = runner.only(evaluation, only), tuple(e for e in before.entries if e.key not in only)
        todo, others = len(only), (*before.replaced, *repeated)
    counts = f"{count(todo, 'run')} to do" + (f", {len(entries):,} done before" if entries else "")
    click.echo(f"Log: {writer.folder} ({counts})", err=True)
    recorder = default_observer()
    max_cost = options["max_cost"]
    with progress_of(before.header, entries, len(entries) + todo, others, options["quiet"]) as progress:
        warning = CostWarning(max_cost is not None and costs_money(evaluation.settings.check()), progress.say)
        earlier = sum(entry.usage.get("unpriced_calls") or 0 for entry in (*entries, *others))
        warning.check("earlier runs", {"unpriced_calls": earlier})

        def spent() -> bool:
            return max_cost is not None and progress.cost >= max_cost

        def finished(entry: Entry) -> None:
            with _explained(writer.folder):
                writer.append(entry)
            progress.add(entry)
            warning.check(entry.sample_id, entry.usage)

        workers = min(options["at_once"], max(1, todo))
        pool = runner.Pool(evaluation, workers, finished, fan_out(recorder, telemetry()), spent)
        ending = asyncio.run(_drive(pool, work)) if todo else _Ending()
        if progress.runs < progress.total and spent():
            ending = replace(ending, left=progress.total - progress.runs)
    if isinstance(recorder, TraceWriter):
        recorder.flush(_FLUSH_S)
    return ending, read_log(writer.folder)


async def _drive(pool: Any, work: Iterator[Work]) -> _Ending:
    from ..evals.runner import CannotGoOn
    from .runner import until_interrupted

    task = asyncio.ensure_future(pool.run(work))
    try:
        _, interrupted = await until_interrupted(task, task.cancel)
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
        interrupted = True
    except CannotGoOn as error:
        return _Ending(failure=str(error))
    return _Ending(interrupted=interrupted)


def _report(ending: _Ending, log: EvalLog, again: str, options: Mapping[str, Any]) -> int:
    done = f"{len(log.entries):,} of {count(log.expected, 'run')} {'are' if log.expected > 1 else 'is'} in the log"
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


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Translate an error of writing the log into one of the command line."""
    from ..batch.errors import not_writable

    try:
        yield
    except OSError as error:
        problem = not_writable(f"the log {folder}", error, "use another --log")
        raise exit_codes.EnvironmentProblem(f"{problem}. Its entries are safe.") from None


def _now() -> str:
    import datetime

    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
