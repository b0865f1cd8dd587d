"""Whether a calibrator is any good: decided on samples that it has not seen, and beyond chance.

Half of the samples, by lot, are for fitting, the other half for the decision. Which curve and which way from fields to
the whole answer is chosen within the first half, by cross-fitting. What is accepted is fitted again on everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import RlmError
from .bootstrap import Difference
from .calibrator import METHODS, Calibrator, Way
from .dataset import Answer, groups
from .fit import best_method, compare_ways, fit, folds
from .scored import Scored, by_calibrator, by_formula

FEWEST = 20
"""Samples that each half needs."""


class TooLittle(RlmError, ValueError):
    """There is nothing to fit, or nothing to decide on; the message says what is missing."""


@dataclass(frozen=True)
class Report:
    """What a fit came to, on the held-out half."""

    method: str
    way: Way
    before: Scored
    """The formula."""

    methods: Mapping[str, Scored]
    """What each method gives."""

    ways: Mapping[Way, float]
    """The Brier score of each way from fields to the answer, by cross-fitting in the first half."""

    fields: Difference
    answers: Difference
    """In Brier score, before and after: below zero is better."""

    calibrator: Calibrator | None = None
    """None where it was refused."""

    @property
    def after(self) -> Scored:
        """The method that was chosen."""
        return self.methods[self.method]

    @property
    def accepted(self) -> bool:
        """Whether fields and answers are both better, beyond chance."""
        return self.fields.improved and self.answers.improved

    def to_dict(self) -> dict[str, Any]:
        """The measures, as plain JSON values."""
        levels = ("fields", "answers")
        return {
            level: {
                "before": asdict(getattr(self.before, level).measures()),
                "after": asdict(getattr(self.after, level).measures()),
                "brier_difference": asdict(getattr(self, level)),
            }
            for level in levels
        }


def calibrate(
    answers: Sequence[Answer],
    *,
    method: str = "auto",
    seed: int = 1,
    fitted_on: Mapping[str, Any] | None = None,
) -> Report:
    """Fit, decide, and fit again on everything if it was accepted. Raises `TooLittle`."""
    first, second = groups(answers, 2, seed)
    for half in (first, second):
        _enough(half)
    chosen = best_method(first, seed) if method == "auto" else method
    ways = compare_ways(first, chosen, seed)
    way = min(ways, key=lambda one: ways[one])
    before = by_formula(second)
    methods = {one: by_calibrator(fit(first, one, way, seed=seed), second) for one in METHODS}
    after = methods[chosen]
    fields = after.fields.compared_with(before.fields, seed)
    whole = after.answers.compared_with(before.answers, seed)
    report = Report(chosen, way, before, methods, ways, fields, whole)
    return replace(report, calibrator=_on_all(report, answers, seed, fitted_on or {})) if report.accepted else report


def _on_all(report: Report, answers: Sequence[Answer], seed: int, fitted_on: Mapping[str, Any]) -> Calibrator:
    """The calibrator for use, and held-out probabilities of answers for its rule: one answer to each sample."""
    one_each = list({answer.sample: answer for answer in reversed(answers)}.values())
    held_out: list[tuple[float, bool]] = []
    for fold, _ in folds(one_each, seed):
        left_out = {answer.sample for answer in fold}
        part = fit([a for a in answers if a.sample not in left_out], report.method, report.way, seed=seed)
        scored = by_calibrator(part, fold).answers
        held_out += zip(scored.scores, scored.rights, strict=True)
    counts = {"samples": len(one_each), "answers": len(answers), "fields": sum(len(one.fields) for one in answers)}
    return replace(
        fit(answers, report.method, report.way, seed=seed),
        fitted_on={**fitted_on, **counts, "seed": seed},
        measures=report.to_dict(),
        held_out=tuple(sorted(held_out)),
    )


def _enough(half: Sequence[Answer]) -> None:
    samples = len({answer.sample for answer in half})
    if samples < FEWEST:
        raise TooLittle(
            f"one half of the data has {samples} samples with an extracted answer; each needs at least {FEWEST}. "
            "Only extracted answers count: those that were submitted need no calibrator."
        )
    rights = [right for answer in half for right in answer.right.values()]
    if all(rights) or not any(rights):
        which = "right" if all(rights) else "wrong"
        raise TooLittle(
            f"all {len(rights)} fields in one half of the data are {which}, and there is nothing to learn from. "
            f"{'Harder' if all(rights) else 'Easier'} samples (another --length, other suites), or more of them, help."
        )
