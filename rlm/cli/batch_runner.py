"""A batch on the command line: prepared, run under a view, and summarized; Ctrl-C lets running items finish."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import click

from ..batch import BatchError, BatchRun, open_batch
from ..batch.driver import Batch
from ..batch.errors import ExecutorError, MachineUnfit, NotWritable
from ..tasks import Overrides, Task
from . import exit_codes, preflight
from .console import count, print_json, print_page
from .pages.batch_summary import batch_page
from .preflight import CostWarning, costs_money
from .progress.batch import BatchView, choose_view, repair_lines
from .runner import telemetry

_PROGRESS_ITEMS = 20_000
_SAME_OPTIONS = (
    *("skip", "limit", "max_cost", "fail_on_error", "retry_failed"),
    *("workers", "at_once", "ray_address"),
)


def run_batch(files: Sequence[str], changes: Overrides, options: Mapping[str, Any], output: IO[str]) -> int:
    """Run a batch and return its exit code. The summary goes to `output`."""
    telemetry()  # if it is not available, this fails here and not in every worker
    if options["output"] == "-":
        raise click.UsageError("--output names a file: the same command continues from there")
    view = choose_view(options["quiet"])
    checks = _TaskChecks(view.say)
    opened = open_batch(
        files,
        options["over"] or None,
        output=options["output"] or None,
        models=changes.models,
        budget=changes.budget,
        executor=options["engine"],
        cache=options["cache"] or "off",
        notify=view.say,
        on_task=checks.check,
        **{name: options[name] for name in _SAME_OPTIONS},
    )
    with _explained(), opened as batch:
        for line in repair_lines(batch.results.repairs, batch.results.path):
            view.say(line)
        interrupts = _Interrupts(batch.state, view)
        with interrupts:
            _drive(batch, view, CostWarning(options["max_cost"] is not None and checks.paid, view.say))
            interrupts.over = True
            summary = batch.summary()
            if options["as_json"]:
                print_json(summary.to_dict(), output)
            else:
                print_page(batch_page(summary), output)
            if interrupts.count:
                click.echo(resume_text(batch.state), err=True)
        return exit_codes.INTERRUPTED if interrupts.count else _code(batch.state)


def resume_text(batch: Batch) -> str:
    """Return how to continue after an interruption."""
    command = shlex.join(["rlm", *sys.argv[1:]])
    done = f"{batch.done:,} of {batch.total:,} items are done"
    return f"Interrupted: {done}. The same command continues from there:\n  {command}"


class _TaskChecks:
    """The checks of a batch's tasks, made once for each kind of task. A long check reports its progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.paid = False
        """Whether a task asks a model that may cost money."""

        self._say, self._items = say, 0
        self._seen: set[tuple[str, str]] = set()
        self._last: Task | None = None

    def check(self, task: Task) -> None:
        """Raise if a task cannot be run here."""
        self._items += 1
        if self._items % _PROGRESS_ITEMS == 0:
            self._say(f"{self._items:,} items read and checked")
        if task is self._last:
            return
        self._last = task
        self.paid = self.paid or costs_money(task)
        kind = (task.isolation, repr((task.models, task.plans and task.plans.models)))
        if kind not in self._seen:
            preflight.require(task)
            self._seen.add(kind)


def _drive(batch: BatchRun, view: BatchView, warning: CostWarning) -> None:
    """Run the batch under a view, to its end or until a second Ctrl-C."""
    try:
        outcomes = iter(batch)
        view.start(batch.state)
        warning.check("earlier sessions", {"unpriced_calls": batch.state.unpriced_calls})
        for outcome in outcomes:
            view.update(batch.state, outcome)
            warning.check(outcome.name, outcome.usage)
    except KeyboardInterrupt:
        pass
    finally:
        view.stop(batch.state)


class _Interrupts:
    """The handler of Ctrl-C: the first lets running items finish, the second ends the batch at once."""

    def __init__(self, batch: Batch, view: BatchView) -> None:
        self.count = 0
        self.over = False
        """The batch has ended; from now on Ctrl-C is ignored, so that the summary is printed."""

        self._batch, self._view = batch, view
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        with contextlib.suppress(ValueError):  # not the main thread: it receives no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, *_: object) -> None:
        if self.over:
            return
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        self._batch.stop("it was interrupted")
        running = count(len(self._batch.running), "item")
        with contextlib.suppress(RuntimeError):  # the signal arrived while the stream was being written
            self._view.say(f"Interrupted: waiting for {running} under way; Ctrl-C again ends at once.")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Translate errors that end a batch into errors of the command line."""
    try:
        yield
    except (NotWritable, ExecutorError) as error:
        raise exit_codes.EnvironmentProblem(f"{error}. Finished items are kept.") from None
    except MachineUnfit as error:
        raise exit_codes.EnvironmentProblem(f"the batch was stopped: {error}") from None
    except BatchError as error:
        raise click.UsageError(str(error)) from None


def _code(batch: Batch) -> int:
    unfinished = batch.stop_reason is not None and batch.done < batch.total
    return exit_codes.NO_ANSWER if batch.failing or unfinished else exit_codes.ANSWERED
