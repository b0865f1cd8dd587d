"""Probabilities beside what came, for fields and for whole answers: the form in which everything is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bootstrap import Difference, difference
from .calibrator import Calibrator
from .dataset import Answer
from .metrics import Measures, measure


@dataclass(frozen=True, slots=True)
class Level:
    """Fields, or answers: for each one the sample it belongs to, its probability, and whether it was right."""

    samples: tuple[str, ...]
    scores: tuple[float, ...]
    rights: tuple[bool, ...]

    def losses(self) -> list[float]:
        """The squared distance of each probability from what came; their mean is the Brier score."""
        return [(score - right) ** 2 for score, right in zip(self.scores, self.rights, strict=True)]

    def measures(self) -> Measures:
        """How good the probabilities are."""
        return measure(self.scores, self.rights)

    def compared_with(self, before: Level, seed: int) -> Difference:
        """How the Brier score differs from that of other probabilities for the same."""
        return difference(self.samples, before.losses(), self.losses(), seed)


@dataclass(frozen=True, slots=True)
class Scored:
    """Some answers, at both levels."""

    fields: Level
    answers: Level


def by_formula(answers: Sequence[Answer]) -> Scored:
    """What the formula says. It knows nothing of single fields: each has the score of its answer."""
    whole = [answer.formula for answer in answers]
    return _scored(answers, [[one] * len(answer.fields) for one, answer in zip(whole, answers, strict=True)], whole)


def by_calibrator(calibrator: Calibrator, answers: Sequence[Answer]) -> Scored:
    """What a calibrator says."""
    fields = [list(calibrator.fields(answer.fields).values()) for answer in answers]
    return _scored(answers, fields, [calibrator.whole(some) for some in fields])


def _scored(answers: Sequence[Answer], fields: Sequence[Sequence[float]], whole: Sequence[float]) -> Scored:
    return Scored(
        Level(
            tuple(answer.sample for answer in answers for _ in answer.fields),
            tuple(score for some in fields for score in some),
            tuple(answer.right[name] for answer in answers for name in answer.fields),
        ),
        Level(tuple(answer.sample for answer in answers), tuple(whole), tuple(answer.all_right for answer in answers)),
    )
