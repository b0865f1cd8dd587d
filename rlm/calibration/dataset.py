"""The data of a calibrator: answers, with the evidence for each field and whether it was correct."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..extraction.evidence.features import FORMULA
from ..results import ExecutionResult, Failed

MIN_CORRECT_SCORE = 1.0
ENDINGS = ("Submitted", "Extracted")
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    sample: str
    """The sample. Answers to the same sample are not independent, and never on both sides of a split."""

    fields: Mapping[str, Mapping[str, float]]
    """The evidence for each field that was scored, by feature."""

    correct: Mapping[str, bool]
    ending: str = "Extracted"
    """`Submitted` or `Extracted`."""

    @property
    def all_correct(self) -> bool:
        """Whether every field is correct."""
        return all(self.correct.values())

    @property
    def formula(self) -> float:
        """The confidence in the answer without a calibrator: 1 if it was submitted, or the score of the formula."""
        return 1.0 if self.ending == "Submitted" else next(iter(self.fields.values())).get(FORMULA, 0.0)


def features_of(result: ExecutionResult[Any]) -> dict[str, dict[str, float]]:
    """Return the evidence for each field of an answer; empty for a run without one."""
    if isinstance(result, Failed):
        return {}
    return {field: dict(features) for field, features in result.features.items()}


def answers_of(entries: Iterable[Mapping[str, Any]], min_score: float = MIN_CORRECT_SCORE) -> list[Answer]:
    """Return the answers among the entries of a log. A field with at least `min_score` is correct."""
    answers: list[Answer] = []
    for entry in entries:
        scores, evidence = entry.get("scores") or {}, entry.get("fields") or {}
        fields = {name: features for name, features in evidence.items() if name in scores and FORMULA in features}
        ending = entry.get("ending")
        if ending in ENDINGS and fields:
            correct = {name: scores[name] >= min_score - _TOLERANCE for name in fields}
            answers.append(Answer(f"{entry.get('suite')}:{entry['sample_id']}", fields, correct, str(ending)))
    return answers


def split(answers: Sequence[Answer], count: int, seed: int) -> list[list[Answer]]:
    """Split the answers at random into parts of about the same number of samples."""
    samples = sorted({answer.sample for answer in answers})
    random.Random(seed).shuffle(samples)
    part_of = {sample: index % count for index, sample in enumerate(samples)}
    parts: list[list[Answer]] = [[] for _ in range(count)]
    for answer in answers:
        parts[part_of[answer.sample]].append(answer)
    return parts
