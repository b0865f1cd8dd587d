"""A batch on the command line: made ready, driven under a view, and summed up; Ctrl-C lets what runs finish."""

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
from .formatting import count
from .pages.batch_summary import Summary, show
from .progress.batch import BatchView, choose_view
from .telemetry import telemetry
from .unpriced import Unpriced, costs_money

_MANY = 20_000


def run_batch(files: Sequence[str], said: Overrides, options: Mapping[str, Any], output: IO[str]) -> int:
    """Run a batch, with what was said by the options; its exit code. `output` is where the summary goes."""
    telemetry()  # that it cannot be had is said here, not by every worker
    paths, over = [Path(one) for one in files], Path(options["over"]) if options["over"] else None
    results_path = Path(options["output"]) if options["output"] else default_output(paths, over)
    if str(results_path) == "-":
        raise click.UsageError("--output names a file: the same command goes on from there")
    rules = Rules(options["max_cost"], options["fail_on_error"])
    binder = Binder(said.models, said.budget)
    source = Source(paths, over, binder=binder, skip=options["skip"], limit=options["limit"])
    with contextlib.ExitStack() as stack, _explained():
        ledger = Ledger(ledger_path(home(), results_path))
        stack.callback(ledger.close)
        view = choose_view(options["quiet"])
        batch, needs = Batch(source, ledger, rules, tell=view.say), _Needs(view.say)
        batch.prepare(retry_failed=options["retry_failed"], look=needs.look)
        results = Results(results_path, ledger)
        stack.callback(results.close)
        done = sum(one.count for one in ledger.totals().values())
        view.note(results.mended, results_path)
        setting = _setting(said, options["cache"], results_path)
        engine = _engine(setting, options, needs, ledger, batch.total - done)
        stack.callback(engine.close)
        interrupts = _Interrupts(batch, view)
        with interrupts:
            _drive(batch, engine, results, view, Unpriced(rules.max_cost is not None and needs.paid, view.say))
            interrupts.over = True
            show(Summary.of(batch, ledger, results), output, as_json=options["as_json"])
            if interrupts.count:
                click.echo(how_to_go_on(batch), err=True)
        return exit_codes.INTERRUPTED if interrupts.count else _code(batch)


def default_output(files: Sequence[Path], over: Path | None) -> Path:
    """Where the results go, unless told: beside the rows or the tasks."""
    if over is not None:
        return over.with_name(f"{files[0].stem}.{over.stem}.results.jsonl")
    if len(files) == 1:
        return files[0].with_name(f"{files[0].stem}.results.jsonl")
    return files[0].with_name("tasks.results.jsonl")


def how_to_go_on(batch: Batch) -> str:
    """What to do after an interruption."""
    command = shlex.join(["rlm", *sys.argv[1:]])
    done = f"{batch.done:,} of {batch.total:,} items are done"
    return f"Interrupted: {done}. The same command goes on from there:\n  {command}"


class _Needs:
    """What the tasks of a batch need, looked at once for each kind of task. Of many items it says how far it is."""

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
        _ = task.tools  # imported now: a mistake in them is a mistake in the file
        models = task.models
        self.local = self.local or any(one.local for one in (models.main, models.sub, models.extraction))
        self.paid = self.paid or costs_money(task)
        kind = (task.isolation, repr((task.models, task.plans and task.plans.models)))
        if kind not in self._seen:
            preflight.require(task)
            self._seen.add(kind)


def _setting(said: Overrides, cache: Any, results: Path) -> Setting:
    from ..models.policy import pace_path

    traffic = {"pace": str(pace_path()), "cache_mode": cache or "off"}
    models, budget = dict(said.models), dict(said.budget)
    return Setting(models, budget, home=str(home()), traffic=traffic, batch=str(results.resolve()))


def _engine(setting: Setting, options: Mapping[str, Any], needs: _Needs, ledger: Ledger, left: int) -> Engine:
    from ..batch.executors.processes import AT_ONCE, LocalEngine, processors

    at_once = options["at_once"] or AT_ONCE
    if options["engine"] == "ray" and left:  # a cluster is not started for nothing
        from ..batch.executors.ray import RayEngine

        return RayEngine(setting, address=options["ray_address"], workers=options["workers"], at_once=at_once)
    # Each process would load a local model anew.
    workers = options["workers"] or (1 if needs.local else min(processors(), max(1, left)))
    return LocalEngine(setting, workers=workers, at_once=at_once, log=ledger.path.with_suffix(".log"))


def _drive(batch: Batch, engine: Engine, results: Results, view: BatchView, unpriced: Unpriced) -> None:
    """Run the batch under a view, to its end or until a second Ctrl-C."""
    try:
        outcomes = batch.run(engine, results)
        view.start(batch)
        unpriced.look("earlier sessions", {"unpriced_calls": batch.unpriced})
        for outcome in outcomes:
            view.update(batch, outcome)
            unpriced.look(outcome.name, (outcome.result or {}).get("usage"))
    except KeyboardInterrupt:
        pass
    finally:
        view.stop(batch)


class _Interrupts:
    """Ctrl-C while it is entered: the first asks the batch to stop, the second does not ask."""

    def __init__(self, batch: Batch, view: BatchView) -> None:
        self.count = 0
        self.over = False
        """Nothing runs any more: what came is told, and a further one does not keep it from being told."""

        self._batch, self._view = batch, view
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        with contextlib.suppress(ValueError):  # not the main thread: then signals go elsewhere, too
            for one in (signal.SIGINT, signal.SIGTERM):
                self._before[one] = signal.signal(one, self._take)

    def __exit__(self, *error: object) -> None:
        for one, old in self._before.items():
            signal.signal(one, old)

    def _take(self, *_: object) -> None:
        if self.over:
            return
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        self._batch.stop("it was interrupted")
        running = count(len(self._batch.running), "item")
        with contextlib.suppress(RuntimeError):  # it came while something was being written
            self._view.say(f"Interrupted: {running} under way, let finish; Ctrl-C again ends at once.")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What keeps a batch from going on, as the command line says it."""
    try:
        yield
    except Unwritable as error:
        raise exit_codes.EnvironmentProblem(f"{error}. What was done before is kept.") from None
    except Unfit as error:
        raise exit_codes.EnvironmentProblem(f"the batch was stopped: {error}") from None
    except BatchError as error:
        raise click.UsageError(str(error)) from None
    except EngineError as error:
        raise exit_codes.EnvironmentProblem(f"{error}. What was done before is kept.") from None


def _code(batch: Batch) -> int:
    unfinished = batch.why is not None and batch.done < batch.total
    return exit_codes.NO_ANSWER if batch.failing or unfinished else exit_codes.ANSWERED
