"""How good probabilities are: calibrated (ECE), sharp as well (Brier), in the right order (AUROC, risk-coverage)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BINS = 10

Scores = Sequence[float]
Rights = Sequence[bool]


@dataclass(frozen=True, slots=True)
class Measures:
    """What there is to say about the probabilities of many answers."""

    n: int
    right: float
    """The share of right answers."""

    ece: float
    brier: float
    auroc: float | None
    """None where all are right, or all are wrong."""

    aurc: float
    """The mean error over all coverages: the area under the risk-coverage curve."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of about the same probability."""

    n: int
    mean: float
    right: float


def measure(scores: Scores, rights: Rights) -> Measures:
    """All measures at once."""
    if not scores:
        raise ValueError("there is nothing to measure")
    curve = risk_coverage(scores, rights)
    return Measures(
        n=len(scores),
        right=sum(rights) / len(rights),
        ece=ece(scores, rights),
        brier=brier(scores, rights),
        auroc=auroc(scores, rights),
        aurc=sum(risk for _, risk in curve) / len(curve),
    )


def brier(scores: Scores, rights: Rights) -> float:
    """The mean squared distance between a probability and what came: 0 is perfect, 0.25 is a coin."""
    return sum((score - right) ** 2 for score, right in zip(scores, rights, strict=True)) / len(scores)


def bins(scores: Scores, rights: Rights, count: int = BINS) -> list[Bin | None]:
    """The answers in bins of equal width; None where there are none."""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(count)]
    for score, right in zip(scores, rights, strict=True):
        groups[min(int(score * count), count - 1)].append((score, right))
    return [
        Bin(len(group), sum(one for one, _ in group) / len(group), sum(one for _, one in group) / len(group))
        if group
        else None
        for group in groups
    ]


def ece(scores: Scores, rights: Rights, count: int = BINS) -> float:
    """The expected calibration error: how far bins are from what they promise, weighed by their size."""
    return sum(one.n * abs(one.mean - one.right) for one in bins(scores, rights, count) if one) / len(scores)


def auroc(scores: Scores, rights: Rights) -> float | None:
    """How often a right answer has the higher probability than a wrong one; ties count half."""
    positives = sum(rights)
    negatives = len(rights) - positives
    if not positives or not negatives:
        return None
    order = sorted(zip(scores, rights, strict=True))
    rank, index = 0.0, 0
    while index < len(order):
        end = index
        while end < len(order) and order[end][0] == order[index][0]:
            end += 1
        rank += sum(right for _, right in order[index:end]) * (index + end + 1) / 2
        index = end
    return (rank - positives * (positives + 1) / 2) / (positives * negatives)


def risk_coverage(scores: Scores, rights: Rights) -> list[tuple[float, float]]:
    """For every answer more that is accepted, the surest first: the share that is accepted, and the error in it.

    Answers with the same probability cannot be told apart: their errors are spread evenly over them.
    """
    order = sorted(zip(scores, rights, strict=True), key=lambda one: -one[0])
    curve: list[tuple[float, float]] = []
    wrong, index = 0.0, 0
    while index < len(order):
        end = index
        while end < len(order) and order[end][0] == order[index][0]:
            end += 1
        share = sum(not right for _, right in order[index:end]) / (end - index)
        for place in range(index, end):
            wrong += share
            curve.append(((place + 1) / len(order), wrong / (place + 1)))
        index = end
    return curve


def risk_at(curve: Sequence[tuple[float, float]], coverage: float) -> float:
    """The error where this share of the answers is accepted."""
    return curve[max(0, min(len(curve) - 1, round(coverage * len(curve)) - 1))][1]
