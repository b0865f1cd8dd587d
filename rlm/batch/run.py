"""`run_batch` and `open_batch`: run many tasks from Python. `rlm batch` is a view of the same functions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..files import home
from ..models.cache import Mode
from ..tasks import Task
from .driver import Batch, StopRules
from .executors.base import DEFAULT_AT_ONCE, Executor, WorkerConfig
from .item import Outcome
from .ledger import Ledger, ledger_path
from .results_file import ResultsFile
from .source import Rows, Source
from .summary import BatchSummary
from .task_binding import TaskBinder

ExecutorName: TypeAlias = Literal["local", "ray"]
TaskFiles: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
RowSource: TypeAlias = str | os.PathLike[str] | Sequence[Mapping[str, Any]]


def run_batch(
    tasks: TaskFiles,
    rows: RowSource | None = None,
    *,
    on_outcome: Callable[[Outcome], None] = lambda _: None,
    **options: Any,
) -> BatchSummary:
    """Run the items of a batch that have not ended, and return the summary of all of them.

        summary = rlm.run_batch("task.yaml", "rows.csv", workers=4, max_cost=5.0)
        for line in summary.results():
            print(line["item"], line["ending"], line["outputs"])

    Outcomes are written to the results file as they come, and `on_outcome` is called with each. The same call after
    an interruption runs only what is missing. `options` are those of `open_batch`, which describes the arguments.
    """
    with open_batch(tasks, rows, **options) as batch:
        for outcome in batch:
            on_outcome(outcome)
        return batch.summary()


@contextlib.contextmanager
def open_batch(
    tasks: TaskFiles,
    rows: RowSource | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    models: Mapping[str, str] | None = None,
    budget: Mapping[str, Any] | None = None,
    skip: Sequence[str] = (),
    limit: int | None = None,
    max_cost: float | None = None,
    fail_on_error: float | None = None,
    retry_failed: bool = False,
    executor: ExecutorName = "local",
    workers: int | None = None,
    at_once: int | None = None,
    ray_address: str | None = None,
    cache: Mode = "off",
    trace: bool = True,
    notify: Callable[[str], None] = lambda _: None,
    on_task: Callable[[Task], None] = lambda _: None,
) -> Iterator[BatchRun]:
    """Open a batch, check all of its items, and yield it; iterating over it runs the items.

        with open_batch("task.yaml", rows) as batch:
            for outcome in batch:
                print(outcome.name, outcome.ending)

    What to run:
        tasks: a task file, a .jsonl file with a task on each line, or several of them.
        rows: rows for one task file: a .csv or .jsonl file, or a sequence of mappings from inputs to values. A column
            `id` or `name` names the row, unless it is an input.
        skip: columns of the rows to ignore.
        limit: only the first items, so many.
        models, budget: replace those of the tasks: models by role, and fields of `FallbackTrigger`.
        retry_failed: run items again that failed or were lost in an earlier session.

    Where results go:
        output: the results file, one line of JSON per item; by default beside the rows or the task.
        trace: whether runs are recorded in the trace store.
        notify: called with messages, such as that an item was lost and is run again.
        on_task: called with the task of each item, without its inputs, while the items are checked.

    How to run it:
        executor: `local` for processes of this machine, `ray` for the actors of a Ray cluster.
        workers, at_once: the number of processes or actors, and of items that each runs at once.
        ray_address: the address of a cluster; without it, `ray` starts one on this machine.
        cache: `off`, `read` or `read-write`: the response cache.
        max_cost: the cost of the whole batch, in dollars, after which no more items are started.
        fail_on_error: the share of all items that may fail or be lost before the batch stops.

    Raises `TaskError` for mistakes in tasks and rows, and `BatchError`.
    """
    files = [Path(tasks)] if isinstance(tasks, str | os.PathLike) else [Path(task) for task in tasks]
    row_source: Rows | None = Path(rows) if isinstance(rows, str | os.PathLike) else rows
    results_path = Path(output) if output is not None else default_output(files, row_source)
    source = Source(files, row_source, binder=TaskBinder(models, budget), skip=skip, limit=limit)
    config = WorkerConfig(
        models=dict(models or {}),
        budget=dict(budget or {}),
        home=str(home()),
        trace=trace,
        traffic=_traffic(cache),
        batch=str(results_path.resolve()),
    )
    with contextlib.ExitStack() as stack:
        ledger = Ledger(ledger_path(home(), results_path))
        stack.callback(ledger.close)
        batch = Batch(source, ledger, StopRules(max_cost, fail_on_error), notify=notify)
        local_models = False
        previous: Task | None = None

        def check(task: Task) -> None:
            nonlocal local_models, previous
            if task is not previous:
                _ = task.tools  # imported now: a mistake in them is a mistake in the task file
                specs = (task.models.main, task.models.sub, task.models.extraction)
                local_models = local_models or any(spec.local for spec in specs)
                previous = task
            on_task(task)

        batch.prepare(retry_failed=retry_failed, on_task=check)
        results = ResultsFile(results_path, ledger)
        stack.callback(results.close)

        def start_executor() -> Executor:
            left = batch.total - sum(subtotal.count for subtotal in ledger.totals().values())
            running = at_once or DEFAULT_AT_ONCE
            started: Executor
            if executor == "ray" and left:  # a cluster is not started if there is nothing to run
                from .executors.ray import RayExecutor

                started = RayExecutor(config, address=ray_address, workers=workers, at_once=running)
            else:
                from .executors.processes import ProcessExecutor, processor_count

                # Each process would load its own copy of a local model.
                size = workers or (1 if local_models else min(processor_count(), max(1, left)))
                log = ledger.path.with_suffix(".log")
                started = ProcessExecutor(config, workers=size, at_once=running, log=log)
            stack.callback(started.close)
            return started

        yield BatchRun(batch, ledger, results, start_executor)


class BatchRun:
    """A batch whose items are checked. Iterating over it runs the items that have not ended."""

    def __init__(
        self, batch: Batch, ledger: Ledger, results: ResultsFile, start_executor: Callable[[], Executor]
    ) -> None:
        self.state = batch
        """Counts, cost and running items while the batch runs."""

        self.results = results
        self._ledger = ledger
        self._start_executor = start_executor

    def __iter__(self) -> Iterator[Outcome]:
        """Run the items, and yield each outcome once it is recorded. Raises `BatchError`."""
        return self.state.run(self._start_executor(), self.results)

    def stop(self, reason: str) -> None:
        """Start no more items. Running items continue to their end. May be called from a signal handler."""
        self.state.stop(reason)

    def summary(self) -> BatchSummary:
        """Return the summary of the batch, earlier sessions included."""
        return BatchSummary.of(self.state, self._ledger, self.results)


def default_output(files: Sequence[Path], rows: Rows | None = None) -> Path:
    """Return the path of the results file for a batch that names none: beside its rows or its tasks."""
    if isinstance(rows, Path):
        return rows.with_name(f"{files[0].stem}.{rows.stem}.results.jsonl")
    if len(files) == 1:
        return files[0].with_name(f"{files[0].stem}.results.jsonl")
    return files[0].with_name("tasks.results.jsonl")


def _traffic(cache: Mode) -> dict[str, Any]:
    from ..models.policy import rate_limit_folder

    return {"rate_limit_folder": str(rate_limit_folder()), "cache_mode": cache}
