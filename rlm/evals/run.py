"""`evaluate` and `open_evaluation`: run suites and score the answers from Python, as `rlm eval run` does."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..events import Observer, fan_out, ignore
from .config import DEFAULT_COUNT, DEFAULT_LENGTH, EvalSettings, Evaluation
from .log import EvalLog, LogEntry, logs_folder, read_log
from .log_writer import LogWriter
from .runner import missing_runs, run_samples, selected_runs
from .summary import EvalSummary, summarize


def evaluate(
    suites: str | Sequence[str],
    *,
    task: str | Path | None = None,
    models: Mapping[str, str] | None = None,
    budget: Mapping[str, Any] | None = None,
    lengths: Sequence[int] = (DEFAULT_LENGTH,),
    count: int | None = DEFAULT_COUNT,
    seed: int = 1,
    epochs: int = 1,
    baseline: Literal["direct"] | None = None,
    error_rate: float | None = None,
    texts: str | Path | None = None,
    log: str | Path | None = None,
    at_once: int = 1,
    max_cost: float | None = None,
    trace: bool = True,
    on_entry: Callable[[LogEntry], None] = lambda _: None,
) -> EvalLog:
    """Run suites, score the answers, and return the log; `rlm.evals.summarize(log)` has the mean scores.

        log = rlm.evaluate("needle", models={"main": "openai/gpt-5-mini"}, lengths=[16_000], count=5)
        print(rlm.evals.summarize(log).all.score.mean)

    What to run:
        suites: names of suites (`rlm eval list`) or paths of JSONL files with samples.
        lengths, count, seed: the lengths of generated inputs in characters, the samples of each suite and length, and
            the seed that they are generated from.
        epochs: how often each sample is run.
        baseline: `direct` runs no REPL, with the whole input in the prompt.
        texts: the folder of the texts that the suites `oolong`, `oolong-pairs`, `ruler` and `logs` are about.

    With which models:
        task: a task file with models, budget, sandbox and tools; its signature and inputs are not used.
        models, budget: replace those of the task file: models by role, and fields of `FallbackTrigger`.
        error_rate: the probability that the built-in model `oracle` misreads a fact.

    How to run it:
        log: the directory of the log; by default a new one. The same call with the same log runs what is missing.
        at_once: the number of samples that run at once.
        max_cost: the cost of the whole log, in dollars, after which no more samples are started.
        trace: whether runs are recorded in the trace store.
        on_entry: called with the entry of each finished run.

    Raises `TaskError` for mistakes in settings or samples, `EvalLogError` for the log, and `EvaluationStopped` if no
    sample can be run here.
    """
    from ..run import run_sync
    from ..traces.writer import default_observer, flush_writers

    names = (suites,) if isinstance(suites, str) else tuple(suites)
    settings = EvalSettings.read(task, models=dict(models or {}), budget=dict(budget or {}), error_rate=error_rate)
    folder_of_texts = None if texts is None else Path(texts)
    evaluation = Evaluation(names, settings, tuple(lengths), count, seed, epochs, baseline, folder_of_texts)
    folder = Path(log) if log is not None else new_log_folder(names, baseline)
    recorder = default_observer() if trace else ignore
    with open_evaluation(evaluation, folder) as run:
        cost = run.cost_usd

        def add(entry: LogEntry) -> None:
            nonlocal cost
            cost += entry.usage.get("cost_usd") or 0.0
            on_entry(entry)

        def is_spent() -> bool:
            return max_cost is not None and cost >= max_cost

        run_sync(lambda: run.run(add, at_once=at_once, observe=recorder, should_stop=is_spent))
        run.finish()
    if trace:
        flush_writers()
    return read_log(folder)


@contextlib.contextmanager
def open_evaluation(
    evaluation: Evaluation, folder: Path, *, only: Collection[tuple[str, int]] | None = None
) -> Iterator[EvaluationRun]:
    """Open the log of an evaluation and yield the runs to do: the missing ones, or `only` those with some keys.

    Raises `TaskError`, and `EvalLogError` if the log cannot be continued.
    """
    evaluation.settings.check()
    header = {**evaluation.header(), "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    with LogWriter(folder, header) as writer:
        log = read_log(folder)
        if only is None:
            kept, replaced = log.entries, log.replaced
            todo = log.total - len({entry.key for entry in log.entries})
        else:
            kept = tuple(entry for entry in log.entries if entry.key not in only)
            replaced = (*log.replaced, *(entry for entry in log.entries if entry.key in only))
            todo = len(only)
        yield EvaluationRun(evaluation, writer, log.header, kept, replaced, todo, only)


@dataclass(frozen=True)
class EvaluationRun:
    """The runs that an open log lacks."""

    evaluation: Evaluation
    writer: LogWriter
    header: Mapping[str, Any]
    kept: tuple[LogEntry, ...]
    """Entries of earlier runs."""

    replaced: tuple[LogEntry, ...]
    """Entries that are replaced by others; their cost counts."""

    todo: int
    """The number of runs to do."""

    only: Collection[tuple[str, int]] | None = None

    @property
    def cost_usd(self) -> float:
        """The cost of earlier runs."""
        return sum(entry.usage.get("cost_usd") or 0.0 for entry in (*self.kept, *self.replaced))

    async def run(
        self,
        on_entry: Callable[[LogEntry], None] = lambda _: None,
        *,
        at_once: int = 1,
        observe: Observer = ignore,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run the samples, `at_once` at a time; record each entry, then call `on_entry` with it.

        Raises `EvaluationStopped`, and `LogWriteError`.
        """
        if not self.todo:
            return
        if self.only is None:
            runs = missing_runs(self.evaluation, {entry.key for entry in self.kept})
        else:
            runs = selected_runs(self.evaluation, self.only)

        def record(entry: LogEntry) -> None:
            self.writer.append(entry)
            on_entry(entry)

        await run_samples(
            self.evaluation,
            runs,
            record,
            at_once=min(at_once, self.todo),
            observe=fan_out(observe),
            should_stop=should_stop,
        )

    def finish(self) -> EvalSummary:
        """Write the summary of the log, which may be incomplete, and return it."""
        summary = summarize(read_log(self.writer.folder))
        self.writer.summarize(summary.to_dict())
        return summary


def new_log_folder(suites: Sequence[str], baseline: str | None = None) -> Path:
    """Return an unused directory for a log, named after its suites and the time."""
    suite = Path(suites[0]).stem if len(suites) == 1 else f"{len(suites)}-suites"
    name = f"{suite}{f'-{baseline}' if baseline else ''}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = logs_folder() / name, 1
    while folder.exists():
        number += 1
        folder = logs_folder() / f"{name}-{number}"
    return folder
