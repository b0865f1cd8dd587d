"""Measures of probabilities: calibration (ECE), accuracy (Brier), ranking (AUROC, risk and coverage); comparisons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..stats import bootstrap, interval
from .calibrator import Calibrator
from .dataset import Answer

BINS = 10
RESAMPLES = 2000

Scores = Sequence[float]
Labels = Sequence[bool]


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of many probabilities."""

    n: int
    right: float
    """The share of correct answers."""

    ece: float
    brier: float
    auroc: float | None
    """None if all answers are correct, or none is."""

    aurc: float
    """The mean error over all coverages: the area under the risk-coverage curve."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers with about the same probability."""

    n: int
    mean: float
    """The mean probability."""

    correct: float
    """The share of correct answers."""


@dataclass(frozen=True, slots=True)
class BrierDifference:
    """The difference of two mean Brier scores, with its 95% interval."""

    mean: float
    low: float
    high: float

    @property
    def improved(self) -> bool:
        """Whether the whole interval is below zero: lower is better."""
        return self.high < 0


@dataclass(frozen=True, slots=True)
class ScoredLevel:
    """Fields, or answers: the sample of each, its probability, and whether it was correct."""

    samples: tuple[str, ...]
    scores: tuple[float, ...]
    correct: tuple[bool, ...]

    def losses(self) -> list[float]:
        """Return the squared error of each probability; their mean is the Brier score."""
        return [(score - correct) ** 2 for score, correct in zip(self.scores, self.correct, strict=True)]

    def measures(self) -> Measures:
        """Return the measures of the probabilities."""
        return measure(self.scores, self.correct)

    def compared_with(self, before: ScoredLevel, seed: int) -> BrierDifference:
        """Return the difference of the Brier score from that of other probabilities for the same answers."""
        return brier_difference(self.samples, before.losses(), self.losses(), seed)


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """Some answers with their probabilities, for fields and for whole answers."""

    fields: ScoredLevel
    answers: ScoredLevel


def by_formula(answers: Sequence[Answer]) -> ScoredAnswers:
    """Score answers by the formula, which gives each field the score of its answer."""
    whole = [answer.formula for answer in answers]
    fields = [[score] * len(answer.fields) for score, answer in zip(whole, answers, strict=True)]
    return _scored(answers, fields, whole)


def by_calibrator(calibrator: Calibrator, answers: Sequence[Answer]) -> ScoredAnswers:
    """Score answers by a calibrator."""
    fields = [list(calibrator.fields(answer.fields).values()) for answer in answers]
    return _scored(answers, fields, [calibrator.whole(probabilities) for probabilities in fields])


def measure(scores: Scores, correct: Labels) -> Measures:
    """Return all measures."""
    if not scores:
        raise ValueError("there is nothing to measure")
    curve = risk_coverage(scores, correct)
    return Measures(
        n=len(scores),
        right=sum(correct) / len(correct),
        ece=ece(scores, correct),
        brier=brier(scores, correct),
        auroc=auroc(scores, correct),
        aurc=sum(risk for _, risk in curve) / len(curve),
    )


def brier_difference(
    samples: Sequence[Hashable], before: Sequence[float], after: Sequence[float], seed: int
) -> BrierDifference:
    """Return how the mean of `after` differs from that of `before`, by a paired bootstrap over whole samples."""
    clusters: dict[Hashable, list[float]] = {}
    for sample, old, new in zip(samples, before, after, strict=True):
        clusters.setdefault(sample, []).append(new - old)
    totals, sizes = [sum(values) for values in clusters.values()], [len(values) for values in clusters.values()]
    low, high = interval(bootstrap(totals, sizes=sizes, seed=seed, resamples=RESAMPLES))
    return BrierDifference(sum(totals) / sum(sizes), low, high)


def brier(scores: Scores, correct: Labels) -> float:
    """Return the mean squared error of the probabilities: 0 is perfect, 0.25 is a coin."""
    return sum((score - label) ** 2 for score, label in zip(scores, correct, strict=True)) / len(scores)


def bins(scores: Scores, correct: Labels, count: int = BINS) -> list[Bin | None]:
    """Return the answers in bins of equal width; None for an empty bin."""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(count)]
    for score, label in zip(scores, correct, strict=True):
        groups[min(int(score * count), count - 1)].append((score, label))
    return [_bin(group) if group else None for group in groups]


def ece(scores: Scores, correct: Labels, count: int = BINS) -> float:
    """Return the expected calibration error: the weighted distance of each bin's probability from its share."""
    return sum(b.n * abs(b.mean - b.correct) for b in bins(scores, correct, count) if b is not None) / len(scores)


def auroc(scores: Scores, correct: Labels) -> float | None:
    """Return how often a correct answer has a higher probability than a wrong one; ties count half."""
    positives = sum(correct)
    negatives = len(correct) - positives
    if not positives or not negatives:
        return None
    order = sorted(zip(scores, correct, strict=True))
    rank, index = 0.0, 0
    while index < len(order):
        end = _tie_end(order, index)
        rank += sum(label for _, label in order[index:end]) * (index + end + 1) / 2
        index = end
    return (rank - positives * (positives + 1) / 2) / (positives * negatives)


def risk_coverage(scores: Scores, correct: Labels) -> list[tuple[float, float]]:
    """Return coverage and error for each number of accepted answers, the most probable accepted first.

    The errors of answers with the same probability are spread evenly over them.
    """
    order = sorted(zip(scores, correct, strict=True), key=lambda pair: -pair[0])
    curve: list[tuple[float, float]] = []
    wrong, index = 0.0, 0
    while index < len(order):
        end = _tie_end(order, index)
        share = sum(not label for _, label in order[index:end]) / (end - index)
        for position in range(index, end):
            wrong += share
            curve.append(((position + 1) / len(order), wrong / (position + 1)))
        index = end
    return curve


def risk_at(curve: Sequence[tuple[float, float]], coverage: float) -> float:
    """Return the error if this share of the answers is accepted."""
    return curve[max(0, min(len(curve) - 1, round(coverage * len(curve)) - 1))][1]


def _bin(group: Sequence[tuple[float, bool]]) -> Bin:
    count = len(group)
    return Bin(count, sum(score for score, _ in group) / count, sum(label for _, label in group) / count)


def _tie_end(order: Sequence[tuple[float, bool]], start: int) -> int:
    """Return the end of the answers with the same probability as the one at `start`."""
    end = start
    while end < len(order) and order[end][0] == order[start][0]:
        end += 1
    return end


def _scored(answers: Sequence[Answer], fields: Sequence[Sequence[float]], whole: Sequence[float]) -> ScoredAnswers:
    return ScoredAnswers(
        ScoredLevel(
            tuple(answer.sample for answer in answers for _ in answer.fields),
            tuple(score for scores in fields for score in scores),
            tuple(answer.correct[name] for answer in answers for name in answer.fields),
        ),
        ScoredLevel(
            tuple(answer.sample for answer in answers),
            tuple(whole),
            tuple(answer.all_correct for answer in answers),
        ),
    )
