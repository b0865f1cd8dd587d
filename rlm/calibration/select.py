"""Selection of a calibrator: fitted on one half of the samples, accepted only if it is better on the other half.

The curve and the way from fields to the whole answer are chosen within the first half, by cross-validation. The
calibrator is accepted if the Brier scores of fields and answers in the second half improve beyond chance, and is then
fitted again on all samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import RlmError
from ..extraction.evidence.features import kind_of
from .calibrator import METHODS, Calibrator, Way
from .dataset import ENDINGS, Answer, split
from .fit import best_method, compare_ways, fit, folds
from .metrics import BrierDifference, ScoredAnswers, by_calibrator, by_formula

MIN_SAMPLES = 20
"""The number of samples that each half needs."""


class TooFewSamples(RlmError, ValueError):
    """There are too few samples to fit or to decide on; the message says what is missing."""


@dataclass(frozen=True)
class Report:
    """The result of a selection, measured on the held-out half."""

    method: str
    way: Way
    before: ScoredAnswers
    """The scores of the formula."""

    methods: Mapping[str, ScoredAnswers]
    """The scores of each method."""

    ways: Mapping[Way, float]
    """The Brier score of each way from fields to the answer, by cross-validation in the first half."""

    fields: BrierDifference
    answers: BrierDifference
    """The change of the Brier score: below zero is better."""

    endings: Mapping[str, tuple[ScoredAnswers, ScoredAnswers]] = field(default_factory=dict)
    """For each ending, the scores of its answers without a calibrator and with it."""

    calibrator: Calibrator | None = None
    """The calibrator; None if it was refused."""

    @property
    def after(self) -> ScoredAnswers:
        """The scores of the chosen method."""
        return self.methods[self.method]

    @property
    def accepted(self) -> bool:
        """Whether fields and answers both improve beyond chance."""
        return self.fields.improved and self.answers.improved

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain JSON values."""
        levels = ("fields", "answers")
        measures: dict[str, Any] = {
            level: {
                "before": asdict(getattr(self.before, level).measures()),
                "after": asdict(getattr(self.after, level).measures()),
                "brier_difference": asdict(getattr(self, level)),
            }
            for level in levels
        }
        measures["endings"] = {
            ending.lower(): {"before": asdict(before.answers.measures()), "after": asdict(after.answers.measures())}
            for ending, (before, after) in self.endings.items()
        }
        return measures


def calibrate(
    answers: Sequence[Answer],
    *,
    method: str = "auto",
    seed: int = 1,
    fitted_on: Mapping[str, Any] | None = None,
) -> Report:
    """Fit a calibrator on one half, test it on the other, and fit it on all answers if it is accepted.

    Raises `TooFewSamples`.
    """
    first, second = split(answers, 2, seed)
    for half in (first, second):
        _require_enough(half)
    chosen = best_method(first, seed) if method == "auto" else method
    ways = compare_ways(first, chosen, seed)
    way = min(ways, key=lambda name: ways[name])
    before = by_formula(second)
    methods = {name: by_calibrator(fit(first, name, way, seed=seed), second) for name in METHODS}
    after = methods[chosen]
    fields = after.fields.compared_with(before.fields, seed)
    whole = after.answers.compared_with(before.answers, seed)
    parts = {ending: [at for at in second if at.ending == ending] for ending in ENDINGS}
    fitted = fit(first, chosen, way, seed=seed)
    endings = {ending: (by_formula(part), by_calibrator(fitted, part)) for ending, part in parts.items() if part}
    report = Report(chosen, way, before, methods, ways, fields, whole, endings)
    return replace(report, calibrator=_fit_all(report, answers, seed, fitted_on or {})) if report.accepted else report


def _fit_all(report: Report, answers: Sequence[Answer], seed: int, fitted_on: Mapping[str, Any]) -> Calibrator:
    """Fit the final calibrator, with held-out probabilities for its rule: one answer of each sample."""
    one_each = list({answer.sample: answer for answer in reversed(answers)}.values())
    held_out: list[tuple[float, bool]] = []
    for fold, _ in folds(one_each, seed):
        excluded = {answer.sample for answer in fold}
        part = fit(
            [answer for answer in answers if answer.sample not in excluded], report.method, report.way, seed=seed
        )
        level = by_calibrator(part, fold).answers
        held_out += zip(level.scores, level.correct, strict=True)
    counts = {
        "samples": len(one_each),
        "answers": len(answers),
        "fields": sum(len(answer.fields) for answer in answers),
        "endings": sorted({answer.ending.lower() for answer in answers}),
        "kinds": sorted({kind_of(row) for answer in answers for row in answer.fields.values()}),
    }
    return replace(
        fit(answers, report.method, report.way, seed=seed),
        fitted_on={**fitted_on, **counts, "seed": seed},
        measures=report.to_dict(),
        held_out=tuple(sorted(held_out)),
    )


def _require_enough(half: Sequence[Answer]) -> None:
    samples = len({answer.sample for answer in half})
    if samples < MIN_SAMPLES:
        raise TooFewSamples(
            f"one half of the data has {samples} samples with an answer; each needs at least {MIN_SAMPLES}."
        )
    correct = [label for answer in half for label in answer.correct.values()]
    if all(correct) or not any(correct):
        which = "correct" if all(correct) else "wrong"
        raise TooFewSamples(
            f"all {len(correct)} fields in one half of the data are {which}, so there is nothing to fit. "
            f"Use {'harder' if all(correct) else 'easier'} samples (another --length, other suites), or more of them."
        )
