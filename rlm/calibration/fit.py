"""Fitting: a curve from evidence to being right, and the way from fields to the whole answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import isotonic, logistic
from .calibrator import METHODS, WAYS, Calibrator, Way, Whole, held
from .dataset import Answer, groups
from .features import FEATURES, FORMULA
from .scored import by_calibrator

FOLDS = 5
_EVIDENCE = tuple(name for name in FEATURES if name != FORMULA)

Fold = tuple[list[Answer], list[Answer]]


def fit(answers: Sequence[Answer], method: str, way: Way, *, seed: int = 1) -> Calibrator:
    """A calibrator of one kind, whatever it may be worth."""
    calibrator = _curve_only(answers, method)
    if way != "scaled":
        return Calibrator(calibrator.curve, Whole(way))
    # The line is fitted to products of probabilities that were not fitted to the same answers.
    products: list[float] = []
    rights: list[bool] = []
    for fold, rest in folds(answers, seed + 1):
        scored = by_calibrator(_curve_only(rest, method), fold).answers
        products += scored.scores
        rights += scored.rights
    line = logistic.fit([{"product": logistic.logit(held(one))} for one in products], rights, ["product"])
    slope = line.weights.get("product", 0.0)
    return Calibrator(calibrator.curve, Whole("scaled", line.intercept, slope) if slope > 0 else Whole("product"))


def best_method(answers: Sequence[Answer], seed: int) -> str:
    """The method with the better Brier score on fields that it has not seen."""

    def loss(method: str) -> float:
        parts = [by_calibrator(_curve_only(rest, method), fold).fields.losses() for fold, rest in folds(answers, seed)]
        return sum(map(math.fsum, parts))

    return min(METHODS, key=loss)


def compare_ways(answers: Sequence[Answer], method: str, seed: int) -> dict[Way, float]:
    """The Brier score of each way from fields to the answer, on answers that the fit has not seen."""
    losses: dict[Way, list[float]] = {way: [] for way in WAYS}
    for fold, rest in folds(answers, seed):
        for way in WAYS:
            losses[way] += by_calibrator(fit(rest, method, way, seed=seed), fold).answers.losses()
    return {way: math.fsum(some) / len(some) for way, some in losses.items()}


def folds(answers: Sequence[Answer], seed: int) -> list[Fold]:
    """Each fold, with all that is not in it."""
    parts = [part for part in groups(answers, FOLDS, seed) if part]
    return [(part, [answer for other in parts if other is not part for answer in other]) for part in parts]


def _curve_only(answers: Sequence[Answer], method: str) -> Calibrator:
    rows = [numbers for answer in answers for numbers in answer.fields.values()]
    rights = [answer.right[name] for answer in answers for name in answer.fields]
    if method == "isotonic":
        return Calibrator(isotonic.fit([row[FORMULA] for row in rows], rights), Whole("product"))
    return Calibrator(logistic.fit(rows, rights, _EVIDENCE), Whole("product"))
