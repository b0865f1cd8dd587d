"""dspy's optimizers under one interface. Each is given a number of runs, which it keeps to as well as it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from ..evals.scorers import score
from ..json_values import jsonable
from ..text import cut_middle
from .rows import LabeledRow

RIGHT = 0.999
"""The score from which on a run is an example of a right one."""

_ROW = "_labeled_row"


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What every optimizer is told."""

    runs: int
    """About how many runs it may make."""

    seed: int
    threads: int
    reflection_lm: Any
    """The model that writes instructions."""

    scoring: dict[str, str]
    """The scorer of each output, by its name in evaluations."""


def examples(rows: Sequence[LabeledRow]) -> list[Any]:
    """Return rows as dspy's examples."""
    return [dspy.Example(**{**row.inputs, **row.expected, _ROW: row}).with_inputs(*row.inputs) for row in rows]


def score_of(row: LabeledRow, prediction: Any, settings: SearchSettings) -> float:
    """Return the score of a prediction."""
    outputs = {name: prediction.get(name) for name in row.expected}
    return (
        0.0 if all(value is None for value in outputs.values()) else score(row.sample(settings.scoring), outputs).total
    )


def _metric(settings: SearchSettings) -> Callable[..., float]:
    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        value = score_of(example[_ROW], prediction, settings)
        return value if trace is None else float(value >= RIGHT)  # with a trace, dspy asks whether to learn from it

    return metric


def _reflective_metric(settings: SearchSettings) -> Callable[..., Any]:
    """Return a metric with words: what was expected, and what the run shows about itself."""

    def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
        row = gold[_ROW]
        value = score_of(row, pred, settings)
        given = {name: jsonable(pred.get(name)) for name in row.expected}
        words = [f"The score of this answer is {value:g}.", f"Given: {cut_middle(repr(given), 400)}."]
        if value < RIGHT:
            words.append(f"Expected: {cut_middle(repr(row.expected), 400)}.")
        words.append(pred.result.feedback)
        return dspy.Prediction(score=value, feedback="\n".join(words))

    return metric


def _labeled(program: Any, train: list[Any], validation: list[Any], settings: SearchSettings) -> Any:
    return dspy.LabeledFewShot(k=4).compile(program, trainset=[_plain(example) for example in train])


def _bootstrap(program: Any, train: list[Any], validation: list[Any], settings: SearchSettings) -> Any:
    optimizer = dspy.BootstrapFewShot(
        metric=_metric(settings), metric_threshold=RIGHT, max_bootstrapped_demos=3, max_labeled_demos=0
    )
    return optimizer.compile(program, trainset=train[: settings.runs])


def _mipro(program: Any, train: list[Any], validation: list[Any], settings: SearchSettings) -> Any:
    each = max(1, len(validation))
    trials = max(2, settings.runs // each)
    optimizer = dspy.MIPROv2(
        metric=_metric(settings),
        prompt_model=settings.reflection_lm,
        task_model=program.act.lm,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
        auto=None,
        num_candidates=max(2, min(8, trials // 2)),
        num_threads=settings.threads,
        seed=settings.seed,
        metric_threshold=RIGHT,
    )
    return optimizer.compile(
        program,
        trainset=train,
        valset=validation,
        num_trials=trials,
        minibatch=False,
        program_aware_proposer=False,
        data_aware_proposer=False,  # it would put whole inputs into a prompt
    )


def _copro(program: Any, train: list[Any], validation: list[Any], settings: SearchSettings) -> Any:
    candidates = max(2, settings.runs // max(1, len(validation)))
    breadth = max(2, min(6, candidates // 2))
    optimizer = dspy.COPRO(
        prompt_model=settings.reflection_lm,
        metric=_metric(settings),
        breadth=breadth,
        depth=max(1, candidates // breadth),
    )
    options = {"num_threads": settings.threads, "display_progress": False, "display_table": 0}
    return optimizer.compile(program, trainset=validation, eval_kwargs=options)


def _gepa(program: Any, train: list[Any], validation: list[Any], settings: SearchSettings) -> Any:
    optimizer = dspy.GEPA(
        metric=_reflective_metric(settings),
        reflection_lm=settings.reflection_lm,
        max_metric_calls=settings.runs,
        reflection_minibatch_size=min(3, len(train)),
        num_threads=settings.threads,
        track_stats=False,
        seed=settings.seed,
    )
    return optimizer.compile(program, trainset=train, valset=validation)


def _simba(program: Any, train: list[Any], validation: list[Any], settings: SearchSettings) -> Any:
    size, candidates = min(8, len(train)), 3
    optimizer = dspy.SIMBA(
        metric=lambda example, prediction: score_of(example[_ROW], prediction, settings),
        bsize=size,
        num_candidates=candidates,
        max_steps=max(1, settings.runs // (size * candidates * 2)),
        max_demos=2,
        prompt_model=settings.reflection_lm,
        num_threads=settings.threads,
    )
    return optimizer.compile(program, trainset=train, seed=settings.seed)


def _plain(example: Any) -> Any:
    """Return an example without its row, as it is shown to the model."""
    return dspy.Example(**{name: value for name, value in example.items() if name != _ROW})


Optimizer = Callable[[Any, list[Any], list[Any], SearchSettings], Any]
OPTIMIZERS: dict[str, Optimizer] = {
    "gepa": _gepa,
    "mipro": _mipro,
    "copro": _copro,
    "simba": _simba,
    "bootstrap": _bootstrap,
    "labeled": _labeled,
}
EXTRAS = {"mipro": "optuna", "gepa": "gepa"}
"""What an optimizer needs beside dspy."""
