"""A search for better instructions and examples: split, optimize, choose on validation rows, test on rows kept back."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dspy

from ..errors import RlmError
from ..predict import learned_by
from ..repl.learned import Learned
from ..stats import bootstrap, interval
from .leaks import find_leaks
from .optimizers import EXTRAS, OPTIMIZERS, SearchSettings, examples, score_of
from .program import RunStore, SearchStopped, Spending, TaskProgram
from .rows import LabeledRow, Split

_RESAMPLES = 10_000
_LEAST_ROWS = 6

Notify = Callable[[str], None]


class OptimizeError(RlmError, ValueError):
    """A search cannot be made with these settings."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Mean scores before and after, on the same rows."""

    rows: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    """The bounds of the 95% interval of the resampled differences, row by row."""

    better: float
    """The share of resamples in which the score is higher."""


@dataclass(frozen=True, slots=True)
class Optimization:
    """What a search has found, and how good it is."""

    optimizer: str
    learned: Learned
    kept: bool
    """Whether it is better on the validation rows. If not, `learned` is empty: the task stays as it is."""

    validation: Scores
    test: Scores
    leaks: tuple[str, ...]
    """Answers of training rows that the instructions quote."""

    runs: int
    repeated: int
    """Runs that an earlier, interrupted search had made."""

    cost_usd: float
    stopped: bool
    """Whether the limit on the cost ended the search."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {**asdict(self), "learned": self.learned.to_dict()}


def optimize(
    task: Any,
    split: Split,
    *,
    optimizer: str = "gepa",
    runs: int = 100,
    max_cost_usd: float | None = None,
    reflection_lm: Any = None,
    scoring: dict[str, str] | None = None,
    seed: int = 0,
    threads: int = 4,
    store: Path | None = None,
    notify: Notify = lambda text: None,
) -> Optimization:
    """Search for instructions and examples with which a task has better answers.

    `task` has models and no inputs; `split` has its rows. With a `store`, a search that was interrupted goes on: what
    was run is not run again. `reflection_lm` writes instructions; by default the main model does.
    """
    _check(optimizer, split)
    spending = Spending(max_cost_usd)
    program = TaskProgram(task, RunStore(store), spending)
    settings = SearchSettings(runs, seed, threads, reflection_lm or program.act.lm, dict(scoring or {}))
    before = _scores(program, split.validation, settings, notify, "before")
    notify(f"{optimizer}: about {runs} runs")
    best = _search(program, split, optimizer, settings)
    after = _scores(best, split.validation, settings, notify, "after") if best is not program else before
    validation = compare_scores(before, after, seed)
    kept = validation.difference > 0
    learned = learned_by(best.act) if kept else Learned()
    notify("testing on rows that were kept back")
    first = _scores(program, split.test, settings, notify, "test, before")
    second = _scores(best, split.test, settings, notify, "test, after") if kept else first
    words = " ".join([task.signature.instructions, *(part.description or "" for part in task.signature.inputs)])
    leaks = find_leaks(learned.instructions, words, [*split.train, *split.validation])
    return Optimization(
        optimizer,
        learned,
        kept,
        validation,
        compare_scores(first, second, seed),
        tuple(leaks),
        spending.runs,
        spending.repeated,
        spending.cost_usd,
        spending.spent,
    )


def _check(optimizer: str, split: Split) -> None:
    if optimizer not in OPTIMIZERS:
        raise OptimizeError(f"there is no optimizer {optimizer!r}; there are {', '.join(OPTIMIZERS)}")
    package = EXTRAS.get(optimizer)
    if package is not None and importlib.util.find_spec(package) is None:
        raise OptimizeError(f"{optimizer} needs {package}, which is not installed: pip install 'rlm-kernel[optimize]'")
    count = len(split.train) + len(split.validation) + len(split.test)
    if count < _LEAST_ROWS or not split.train:
        raise OptimizeError(f"{count} rows are too few to learn from and to test on; give at least {_LEAST_ROWS}")


def _search(program: TaskProgram, split: Split, optimizer: str, settings: SearchSettings) -> Any:
    """Return the program that an optimizer makes; the given one where the budget ended before there was any."""
    student = program.deepcopy()
    try:
        with dspy.context(lm=settings.reflection_lm):
            return OPTIMIZERS[optimizer](student, examples(split.train), examples(split.validation), settings)
    except SearchStopped:
        return program


def _scores(
    program: Any, rows: Sequence[LabeledRow], settings: SearchSettings, notify: Notify, what: str
) -> list[float]:
    """Return the scores of rows. A row that the budget has nothing left for counts 0."""

    def score(row: LabeledRow) -> float:
        try:
            return score_of(row, program(**row.inputs), settings)
        except SearchStopped:
            return 0.0

    with ThreadPoolExecutor(settings.threads) as pool:
        found = list(pool.map(score, rows))
    notify(f"{what}: {sum(found) / len(found):.3f} on {len(found)} rows")
    return found


def compare_scores(before: Sequence[float], after: Sequence[float], seed: int) -> Scores:
    """Compare scores of the same rows by a paired bootstrap."""
    differences = [second - first for first, second in zip(before, after, strict=True)]
    resampled = bootstrap(differences, seed=seed, resamples=_RESAMPLES)
    low, high = interval(resampled)
    count = len(differences)
    better = sum(value > 0 for value in resampled) / len(resampled)
    return Scores(count, sum(before) / count, sum(after) / count, sum(differences) / count, low, high, better)
