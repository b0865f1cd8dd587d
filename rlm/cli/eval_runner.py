"""An evaluation on the command line: watched while it goes on, stopped by Ctrl-C, its summary printed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import exit_codes
from .formatting import count
from .unpriced import Unpriced, costs_money

if TYPE_CHECKING:
    from ..evals.config import Evaluation
    from ..evals.log import Entry, EvalLog
    from ..evals.runner import Work

_FLUSH_S = 30.0


@dataclass(frozen=True)
class _How:
    """How it ended, if not with the last sample."""

    interrupted: bool = False
    hopeless: str | None = None
    left: int = 0
    """Runs that were not begun, since enough was spent."""


def evaluate(
    evaluation: Evaluation,
    folder: Path,
    output: Any,
    options: Mapping[str, Any],
    *,
    again: str,
    only: Collection[tuple[str, int]] | None = None,
) -> int:
    """Run what is missing of an evaluation, or `only` some of it; its exit code. `again` is how to go on."""
    from ..evals.log import LogError, read_log
    from ..evals.log_writer import LogWriter
    from ..evals.summary import summarize
    from . import preflight

    preflight.require(evaluation.settings.check())
    try:
        header = {**evaluation.header(), "started": _now()}
        with contextlib.ExitStack() as stack:
            with _room(folder):
                writer = stack.enter_context(LogWriter(folder, header))
            how, log = _run(evaluation, writer, read_log(folder), options, only)
            summary = summarize(log)
            with _room(folder):
                writer.summarize(summary.to_dict())
    except LogError as error:
        raise click.UsageError(str(error)) from None
    if options["as_json"]:
        about = {"log": str(folder), "complete": log.complete, "summary": summary.to_dict()}
        output.write(json.dumps(about) + "\n")
    else:
        from .pages.evaluation import show, summary_page

        show(summary_page(log.header, summary), output)
    return _say_how(how, log, again, options)


def _run(
    evaluation: Evaluation,
    writer: Any,
    before: EvalLog,
    options: Mapping[str, Any],
    only: Collection[tuple[str, int]] | None,
) -> tuple[_How, EvalLog]:
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
        work, kept, others = runner.missing(evaluation, done), before.entries, before.replaced
        todo = before.expected - len(done)
    else:
        work, kept = runner.only(evaluation, only), tuple(one for one in before.entries if one.key not in only)
        todo, others = len(only), (*before.replaced, *(one for one in before.entries if one.key in only))
    said = f"{count(todo, 'run')} to do" + (f", {len(kept):,} done before" if kept else "")
    click.echo(f"Log: {writer.folder} ({said})", err=True)
    recorder = default_observer()
    most = options["max_cost"]
    with progress_of(before.header, kept, len(kept) + todo, others, options["quiet"]) as progress:
        watched = most is not None and costs_money(evaluation.settings.check())
        unpriced = Unpriced(watched, progress.say)
        earlier = sum(one.usage.get("unpriced_calls") or 0 for one in (*kept, *others))
        unpriced.look("runs before", {"unpriced_calls": earlier})

        def finished(entry: Entry) -> None:
            with _room(writer.folder):
                writer.append(entry)
            progress.add(entry)
            unpriced.look(entry.sample_id, entry.usage)

        pool = runner.Pool(
            evaluation,
            min(options["at_once"], max(1, todo)),
            finished,
            fan_out(recorder, telemetry()),
            lambda: most is not None and progress.cost >= most,
        )
        how = asyncio.run(_drive(pool, work)) if todo else _How()
        left = progress.total - progress.tries
        if left and most is not None and progress.cost >= most:
            how = replace(how, left=left)
    if isinstance(recorder, TraceWriter):
        recorder.flush(_FLUSH_S)
    return how, read_log(writer.folder)


async def _drive(pool: Any, work: Iterator[Work]) -> _How:
    from ..evals.runner import CannotGoOn
    from .run_control import until_interrupted

    try:
        _, interrupted = await until_interrupted(pool.run(work))
    except CannotGoOn as error:
        return _How(hopeless=str(error))
    return _How(interrupted=interrupted)


def _say_how(how: _How, log: EvalLog, again: str, options: Mapping[str, Any]) -> int:
    done = f"{len(log.entries):,} of {count(log.expected, 'run')} {'are' if log.expected > 1 else 'is'} in the log"
    if how.hopeless is not None:
        raise exit_codes.EnvironmentProblem(f"{how.hopeless}\n{done}. To go on: {again}")
    if how.interrupted:
        click.echo(f"Interrupted. {done}; nothing of it is lost.\nTo go on: {again}", err=True)
        return exit_codes.INTERRUPTED
    if how.left:
        spent = f"Stopped: ${options['max_cost']:g} is spent (--max-cost)."
        left = f"{count(how.left, 'run')} {'was' if how.left == 1 else 'were'} not begun"
        click.echo(f"{spent} {done}. {left}.\nTo go on, with a larger --max-cost: {again}", err=True)
        return exit_codes.NO_ANSWER
    if not log.complete:  # a part of it was run again
        click.echo(f"{done}. The command that began it does the rest.", err=True)
        return exit_codes.NO_ANSWER
    broken = [one for one in log.entries if one.error is not None and not one.too_long]
    if broken:
        retry = shlex.join(["rlm", "eval", "retry", str(log.folder)])
        click.echo(f"{count(len(broken), 'run')} broke off by an error. To run these again: {retry}", err=True)
        return exit_codes.NO_ANSWER
    return exit_codes.ANSWERED


@contextlib.contextmanager
def _room(folder: Path) -> Iterator[None]:
    """Say of a log that it cannot be written, and what to do."""
    from ..batch.errors import unwritable

    try:
        yield
    except OSError as error:
        problem = unwritable(f"the log {folder}", error, "use another --log")
        raise exit_codes.EnvironmentProblem(f"{problem}. What is in it is kept.") from None


def _now() -> str:
    import datetime

    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
