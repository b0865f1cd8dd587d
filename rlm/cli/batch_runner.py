"""A batch on the command line: prepared, run under a view, and summarized; Ctrl-C lets running items finish."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click

from ..batch.driver import Batch, Rules
from ..batch.errors import BatchError, Unfit, Unwritable
from ..batch.executors.base import Engine, EngineError, Setting
from ..batch.ledger import Ledger, ledger_path
from ..batch.results_file import Results
from ..batch.source import Source
from ..batch.task_binding import Binder
from ..paths import home
from ..tasks import Overrides, Task
from . import exit_codes, preflight
from .console import print_json, print_page
from .cost_warning import CostWarning, costs_money
from .formatting import count
from .pages.batch_summary import Summary, batch_page
from .progress.batch import BatchView, choose_view, repair_lines
from .telemetry import telemetry

_MANY = 20_000


def run_batch(files: Sequence[str], changes: Overrides, options: Mapping[str, Any], output: IO[str]) -> int:
    """Run a batch and return its exit code. The summary goes to `output`."""
    telemetry()  # if it is not available, this fails here and not in every worker
    paths, over = [Path(file) for file in files], Path(options["over"]) if options["over"] else None
    results_path = Path(options["output"]) if options["output"] else default_output(paths, over)
    if str(results_path) == "-":
        raise click.UsageError("--output names a file: the same command continues from there")
    rules = Rules(options["max_cost"], options["fail_on_error"])
    binder = Binder(changes.models, changes.budget)
    source = Source(paths, over, binder=binder, skip=options["skip"], limit=options["limit"])
    with contextlib.ExitStack() as stack, _explained():
        ledger = Ledger(ledger_path(home(), results_path))
        stack.callback(ledger.close)
        view = choose_view(options["quiet"])
        batch, needs = Batch(source, ledger, rules, tell=view.say), _Needs(view.say)
        batch.prepare(retry_failed=options["retry_failed"], look=needs.look)
        results = Results(results_path, ledger)
        stack.callback(results.close)
        done = sum(totals.count for totals in ledger.totals().values())
        for line in repair_lines(results.mended, results_path):
            view.say(line)
        setting = _setting(changes, options["cache"], results_path)
        engine = _engine(setting, options, needs, ledger, batch.total - done)
        stack.callback(engine.close)
        interrupts = _Interrupts(batch, view)
        with interrupts:
            _drive(batch, engine, results, view, CostWarning(rules.max_cost is not None and needs.paid, view.say))
            interrupts.over = True
            summary = Summary.of(batch, ledger, results)
            if options["as_json"]:
                print_json(summary.to_dict(), output)
            else:
                print_page(batch_page(summary), output)
            if interrupts.count:
                click.echo(resume_text(batch), err=True)
        return exit_codes.INTERRUPTED if interrupts.count else _code(batch)


def default_output(files: Sequence[Path], over: Path | None) -> Path:
    """Return the default path of the results: beside the rows or the tasks."""
    if over is not None:
        return over.with_name(f"{files[0].stem}.{over.stem}.results.jsonl")
    if len(files) == 1:
        return files[0].with_name(f"{files[0].stem}.results.jsonl")
    return files[0].with_name("tasks.results.jsonl")


def resume_text(batch: Batch) -> str:
    """Return how to continue after an interruption."""
    command = shlex.join(["rlm", *sys.argv[1:]])
    done = f"{batch.done:,} of {batch.total:,} items are done"
    return f"Interrupted: {done}. The same command continues from there:\n  {command}"


class _Needs:
    """The needs of a batch's tasks, checked once for each kind of task. A long check reports its progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._items = say, 0
        self.local = self.paid = False
        self._seen: set[tuple[str, str]] = set()
        self._last: object = None

    def look(self, item: object, task: Any) -> None:
        """Raise if a task cannot be run here."""
        self._items += 1
        if self._items % _MANY == 0:
            self._say(f"{self._items:,} items read and checked")
        if task is self._last:
            return
        self._last = task
        assert isinstance(task, Task)
        _ = task.tools  # imported now: an error in them is an error of the task file
        models = task.models
        self.local = self.local or any(spec.local for spec in (models.main, models.sub, models.extraction))
        self.paid = self.paid or costs_money(task)
        kind = (task.isolation, repr((task.models, task.plans and task.plans.models)))
        if kind not in self._seen:
            preflight.require(task)
            self._seen.add(kind)


def _setting(changes: Overrides, cache: Any, results: Path) -> Setting:
    from ..models.policy import pace_path

    traffic = {"pace": str(pace_path()), "cache_mode": cache or "off"}
    models, budget = dict(changes.models), dict(changes.budget)
    return Setting(models, budget, home=str(home()), traffic=traffic, batch=str(results.resolve()))


def _engine(setting: Setting, options: Mapping[str, Any], needs: _Needs, ledger: Ledger, left: int) -> Engine:
    from ..batch.executors.processes import AT_ONCE, LocalEngine, processors

    at_once = options["at_once"] or AT_ONCE
    if options["engine"] == "ray" and left:  # a cluster is not started for nothing
        from ..batch.executors.ray import RayEngine

        return RayEngine(setting, address=options["ray_address"], workers=options["workers"], at_once=at_once)
    # Each process would load the local model again.
    workers = options["workers"] or (1 if needs.local else min(processors(), max(1, left)))
    return LocalEngine(setting, workers=workers, at_once=at_once, log=ledger.path.with_suffix(".log"))


def _drive(batch: Batch, engine: Engine, results: Results, view: BatchView, warning: CostWarning) -> None:
    """Run the batch under a view, to its end or until a second Ctrl-C."""
    try:
        outcomes = batch.run(engine, results)
        view.start(batch)
        warning.check("earlier sessions", {"unpriced_calls": batch.unpriced})
        for outcome in outcomes:
            view.update(batch, outcome)
            warning.check(outcome.name, (outcome.result or {}).get("usage"))
    except KeyboardInterrupt:
        pass
    finally:
        view.stop(batch)


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
    except Unwritable as error:
        raise exit_codes.EnvironmentProblem(f"{error}. Finished items are kept.") from None
    except Unfit as error:
        raise exit_codes.EnvironmentProblem(f"the batch was stopped: {error}") from None
    except BatchError as error:
        raise click.UsageError(str(error)) from None
    except EngineError as error:
        raise exit_codes.EnvironmentProblem(f"{error}. Finished items are kept.") from None


def _code(batch: Batch) -> int:
    unfinished = batch.why is not None and batch.done < batch.total
    return exit_codes.NO_ANSWER if batch.failing or unfinished else exit_codes.ANSWERED
