"""Logistic regression in plain Python: a few dozen numbers for each of some thousand rows, most of them zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RIDGE = 0.1
_LEAST_SPREAD = 0.3
_STEPS = 50
_CLOSE = 1e-8


@dataclass(frozen=True, slots=True)
class Logistic:
    """The logarithm of the odds is a sum."""

    intercept: float
    weights: Mapping[str, float]

    def __call__(self, numbers: Mapping[str, float]) -> float:
        """The probability."""
        return sigmoid(self.intercept + sum(weight * numbers.get(name, 0.0) for name, weight in self.weights.items()))


def sigmoid(x: float) -> float:
    """From the logarithm of the odds to a probability."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def logit(p: float) -> float:
    """From a probability to the logarithm of the odds."""
    return math.log(p / (1 - p))


def fit(rows: Sequence[Mapping[str, float]], rights: Sequence[bool], names: Sequence[str]) -> Logistic:
    """The likeliest weights by Newton's method, with a penalty on large ones. Names that never change weigh nothing."""
    spreads = {name: _spread([row.get(name, 0.0) for row in rows]) for name in names}
    # What hardly ever changes may not weigh too much: a few rows would decide about all that are unlike them.
    scales = {name: max(spread, _LEAST_SPREAD) if spread > 0 else 0.0 for name, spread in spreads.items()}
    used = [name for name in names if scales[name] > 0]
    # Evidence is made of a few yes and no: many rows are the same, and most of their numbers are zero.
    groups: dict[tuple[tuple[int, float], ...], list[int]] = {}
    for row, right in zip(rows, rights, strict=True):
        key = tuple((at, row[name] / scales[name]) for at, name in enumerate(used, 1) if row.get(name))
        counts = groups.setdefault(((0, 1.0), *key), [0, 0])
        counts[0] += 1
        counts[1] += right
    weights = [0.0] * (len(used) + 1)
    loss = math.inf
    for _ in range(_STEPS):
        gradient, curvature = _derivatives(groups, weights)
        step = _solve(curvature, gradient)
        weights, after = _descend(groups, weights, step)
        if loss - after < _CLOSE:
            break
        loss = after
    return Logistic(weights[0], {name: weights[at] / scales[name] for at, name in enumerate(used, 1)})


_Groups = dict[tuple[tuple[int, float], ...], list[int]]


def _spread(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _derivatives(groups: _Groups, weights: list[float]) -> tuple[list[float], list[list[float]]]:
    size = len(weights)
    gradient = [0.0] + [RIDGE * weight for weight in weights[1:]]
    curvature = [[0.0] * size for _ in range(size)]
    for at in range(1, size):
        curvature[at][at] = RIDGE
    for row, (n, right) in groups.items():
        p = sigmoid(sum(weights[at] * value for at, value in row))
        error, bend = n * p - right, n * max(p * (1 - p), 1e-9)
        for at, value in row:
            gradient[at] += error * value
            line = curvature[at]
            for other, more in row:
                line[other] += bend * value * more
    return gradient, curvature


def _loss(groups: _Groups, weights: list[float]) -> float:
    loss = RIDGE / 2 * sum(weight * weight for weight in weights[1:])
    for row, (n, right) in groups.items():
        x = sum(weights[at] * value for at, value in row)
        # log(1 + exp(x)), without an overflow
        loss += n * (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) - right * x
    return loss


def _descend(groups: _Groups, weights: list[float], step: list[float]) -> tuple[list[float], float]:
    """As far along a step as the loss falls."""
    before, share = _loss(groups, weights), 1.0
    for _ in range(30):
        tried = [weight - share * change for weight, change in zip(weights, step, strict=True)]
        after = _loss(groups, tried)
        if after <= before:
            return tried, after
        share /= 2
    return weights, before


def _solve(matrix: list[list[float]], vector: list[float]) -> list[float]:
    """Gauss's elimination; the matrix is positive definite."""
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
    solved = [0.0] * size
    for at in reversed(range(size)):
        known = sum(rows[at][other] * solved[other] for other in range(at + 1, size))
        solved[at] = (rows[at][size] - known) / rows[at][at]
    return solved
