"""Fitting a calibrator: the curve from evidence to correctness, and the way from fields to the whole answer.

Both regressions are in plain Python: the data are a few dozen numbers, most of them zero, for some thousand fields.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..extraction.evidence.features import FEATURES, FORMULA
from .calibrator import METHODS, WAYS, Calibrator, Isotonic, Logistic, Way, Whole, clamp, logit, sigmoid
from .dataset import Answer, split
from .metrics import by_calibrator

FOLDS = 5
RIDGE = 0.1
_MIN_SPREAD = 0.3
_MAX_STEPS = 50
_TOLERANCE = 1e-8
_EVIDENCE = tuple(FEATURES)

Fold = tuple[list[Answer], list[Answer]]
_Groups = dict[tuple[tuple[int, float], ...], list[int]]
"""Distinct rows, as pairs of column and value, with their number and the number of correct ones."""


def fit(answers: Sequence[Answer], method: str, way: Way, *, seed: int = 1) -> Calibrator:
    """Fit a calibrator of one kind, without judging it."""
    calibrator = _fit_curve(answers, method)
    if way != "scaled":
        return Calibrator(calibrator.curve, Whole(way))
    # The line is fitted to products of probabilities from fits without the same answers.
    products: list[float] = []
    correct: list[bool] = []
    for fold, rest in folds(answers, seed + 1):
        level = by_calibrator(_fit_curve(rest, method), fold).answers
        products += level.scores
        correct += level.correct
    line = fit_logistic([{"product": logit(clamp(product))} for product in products], correct, ["product"])
    slope = line.weights.get("product", 0.0)
    return Calibrator(calibrator.curve, Whole("scaled", line.intercept, slope) if slope > 0 else Whole("product"))


def best_method(answers: Sequence[Answer], seed: int) -> str:
    """Return the method with the better Brier score on fields that were not fitted."""

    def loss(method: str) -> float:
        levels = (by_calibrator(_fit_curve(rest, method), fold).fields for fold, rest in folds(answers, seed))
        return sum(math.fsum(level.losses()) for level in levels)

    return min(METHODS, key=loss)


def compare_ways(answers: Sequence[Answer], method: str, seed: int) -> dict[Way, float]:
    """Return the Brier score of each way from fields to the answer, on answers that were not fitted."""
    losses: dict[Way, list[float]] = {way: [] for way in WAYS}
    for fold, rest in folds(answers, seed):
        for way in WAYS:
            losses[way] += by_calibrator(fit(rest, method, way, seed=seed), fold).answers.losses()
    return {way: math.fsum(values) / len(values) for way, values in losses.items()}


def folds(answers: Sequence[Answer], seed: int) -> list[Fold]:
    """Return the folds of a cross-validation, each with the answers outside of it."""
    parts = [part for part in split(answers, FOLDS, seed) if part]
    return [(part, [answer for other in parts if other is not part for answer in other]) for part in parts]


def fit_isotonic(scores: Sequence[float], correct: Sequence[bool]) -> Isotonic:
    """Return the rising curve with the least squared error, by pooling adjacent violators."""
    sums: dict[float, list[int]] = {}
    for score, is_correct in zip(scores, correct, strict=True):
        counts = sums.setdefault(score, [0, 0])
        counts[0] += 1
        counts[1] += is_correct
    pools: list[tuple[list[float], int, int]] = []
    for score, (n, good) in sorted(sums.items()):
        members = [score]
        while pools and pools[-1][2] * n >= good * pools[-1][1]:
            before, more, better = pools.pop()
            members, n, good = [*before, *members], n + more, good + better
        pools.append((members, n, good))
    return Isotonic(tuple((score, good / n) for members, n, good in pools for score in _ends(members)))


def fit_logistic(
    rows: Sequence[Mapping[str, float]], correct: Sequence[bool], names: Sequence[str], ridge: float = RIDGE
) -> Logistic:
    """Return the most likely weights with a ridge penalty, by Newton's method. Constant features get no weight."""
    spreads = {name: _spread([row.get(name, 0.0) for row in rows]) for name in names}
    # A feature that hardly ever varies must not get a large weight from a few rows.
    scales = {name: max(spread, _MIN_SPREAD) if spread > 0 else 0.0 for name, spread in spreads.items()}
    used = [name for name in names if scales[name] > 0]
    # Evidence is mostly binary: many rows are equal, and most of their values are zero.
    groups: _Groups = {}
    for row, is_correct in zip(rows, correct, strict=True):
        key = tuple((at, row[name] / scales[name]) for at, name in enumerate(used, 1) if row.get(name))
        counts = groups.setdefault(((0, 1.0), *key), [0, 0])
        counts[0] += 1
        counts[1] += is_correct
    weights = [0.0] * (len(used) + 1)
    loss = math.inf
    for _ in range(_MAX_STEPS):
        gradient, curvature = _derivatives(groups, weights, ridge)
        step = _solve(curvature, gradient)
        weights, after = _descend(groups, weights, step, ridge)
        if loss - after < _TOLERANCE:
            break
        loss = after
    return Logistic(weights[0], {name: weights[at] / scales[name] for at, name in enumerate(used, 1)})


def _fit_curve(answers: Sequence[Answer], method: str) -> Calibrator:
    rows = [features for answer in answers for features in answer.fields.values()]
    correct = [answer.correct[name] for answer in answers for name in answer.fields]
    if method == "isotonic":
        return Calibrator(fit_isotonic([row.get(FORMULA, 0.0) for row in rows], correct), Whole("product"))
    # Answers to the same sample say nearly the same: what is known does not grow with their number.
    ridge = RIDGE * len(answers) / max(1, len({answer.sample for answer in answers}))
    return Calibrator(fit_logistic(rows, correct, _EVIDENCE, ridge), Whole("product"))


def _ends(members: list[float]) -> list[float]:
    """Return the ends of a pool, between which the curve is flat."""
    return members[:1] if len(members) == 1 else [members[0], members[-1]]


def _spread(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _derivatives(groups: _Groups, weights: list[float], ridge: float) -> tuple[list[float], list[list[float]]]:
    size = len(weights)
    gradient = [0.0] + [ridge * weight for weight in weights[1:]]
    curvature = [[0.0] * size for _ in range(size)]
    for at in range(1, size):
        curvature[at][at] = ridge
    for row, (n, correct) in groups.items():
        p = sigmoid(sum(weights[at] * value for at, value in row))
        error, bend = n * p - correct, n * max(p * (1 - p), 1e-9)
        for at, value in row:
            gradient[at] += error * value
            line = curvature[at]
            for other, more in row:
                line[other] += bend * value * more
    return gradient, curvature


def _loss(groups: _Groups, weights: list[float], ridge: float) -> float:
    loss = ridge / 2 * sum(weight * weight for weight in weights[1:])
    for row, (n, correct) in groups.items():
        x = sum(weights[at] * value for at, value in row)
        # log(1 + exp(x)) without overflow
        loss += n * (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) - correct * x
    return loss


def _descend(groups: _Groups, weights: list[float], step: list[float], ridge: float) -> tuple[list[float], float]:
    """Take as much of a step as lowers the loss; return the weights and the loss."""
    before, share = _loss(groups, weights, ridge), 1.0
    for _ in range(30):
        candidate = [weight - share * change for weight, change in zip(weights, step, strict=True)]
        after = _loss(groups, candidate, ridge)
        if after <= before:
            return candidate, after
        share /= 2
    return weights, before


def _solve(matrix: list[list[float]], vector: list[float]) -> list[float]:
    """Solve a linear system by Gaussian elimination; the matrix is positive definite."""
    size = len(vector)
    rows = [[*line, value] for line, value in zip(matrix, vector, strict=True)]
    for at in range(size):
        best = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        pivot = rows[at][at]
        for below in range(at + 1, size):
            share = rows[below][at] / pivot
            if share:
                rows[below] = [value - share * above for value, above in zip(rows[below], rows[at], strict=True)]
    solution = [0.0] * size
    for at in reversed(range(size)):
        known = sum(rows[at][other] * solution[other] for other in range(at + 1, size))
        solution[at] = (rows[at][size] - known) / rows[at][at]
    return solution
