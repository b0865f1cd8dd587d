"""Answers for the tests of calibration: made by lot, with a known probability of being right."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rlm.calibration import FEATURES
from rlm.calibration.dataset import Answer

Draw = Callable[[random.Random], tuple[dict[str, float], float, float]]
"""Features, what the formula says, and the true probability."""


def numbers(formula: float = 0.5, **given: float) -> dict[str, float]:
    return {**dict.fromkeys(FEATURES, 0.0), "formula": formula, **given}


def telling(dice: random.Random) -> tuple[dict[str, float], float, float]:
    """The evidence says much, and the formula has it upside down."""
    named, against = dice.random() < 0.6, dice.random() < 0.2
    p = 0.95 if named and not against else 0.5 if named else 0.1
    return {"named": float(named), "against": float(against), "held": dice.random()}, 0.5 if named else 0.8, p


def honest(dice: random.Random) -> tuple[dict[str, float], float, float]:
    """The formula is right as it is, and nothing else says anything."""
    formula = dice.choice((0.2, 0.5, 0.8, 0.99))
    return {"named": float(dice.random() < 0.5), "held": dice.random()}, formula, formula


def make_answers(
    draw: Draw, count: int, *, seed: int = 1, fields: tuple[int, ...] = (1,), epochs: int = 1
) -> list[Answer]:
    dice = random.Random(seed)
    answers = []
    for index in range(count):
        evidence: dict[str, dict[str, float]] = {}
        right: dict[str, bool] = {}
        formulas = []
        for at in range(dice.choice(fields)):
            features, formula, p = draw(dice)
            formulas.append(formula)
            evidence[f"f{at}"] = numbers(**features)
            right[f"f{at}"] = dice.random() < p
        for one in evidence.values():
            one["formula"] = min(formulas)
        answers += [Answer(f"s{index}", evidence, right)] * epochs
    return answers


def entries_of(answers: list[Answer], ending: str = "Extracted") -> list[dict[str, Any]]:
    """The same answers as entries of a log."""
    epochs: dict[str, int] = {}
    made = []
    for answer in answers:
        epochs[answer.sample] = epochs.get(answer.sample, 0) + 1
        made.append(
            {
                "sample_id": answer.sample,
                "suite": "made",
                "length": 4000,
                "epoch": epochs[answer.sample],
                "ending": ending,
                "outputs": dict.fromkeys(answer.fields, 1),
                "expected": dict.fromkeys(answer.fields, 1),
                "scores": {name: float(right) for name, right in answer.correct.items()},
                "score": sum(answer.correct.values()) / len(answer.correct),
                "confidence": answer.formula,
                "fields": {name: dict(one) for name, one in answer.fields.items()},
            }
        )
    return made
