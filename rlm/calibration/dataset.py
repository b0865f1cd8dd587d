"""Answers whose worth is known: the evidence for each field, and whether it was right."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .features import FORMULA

RIGHT = 1.0
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Answer:
    """One extracted answer."""

    sample: str
    """What was asked. Answers to the same question are not independent, and never on both sides of a split."""

    fields: Mapping[str, Mapping[str, float]]
    """The evidence for each field that was scored, by feature."""

    right: Mapping[str, bool]

    @property
    def all_right(self) -> bool:
        """Whether the answer as a whole is right."""
        return all(self.right.values())

    @property
    def formula(self) -> float:
        """What the formula says of the answer."""
        return next(iter(self.fields.values()))[FORMULA]


def answers_of(entries: Iterable[Mapping[str, Any]], right: float = RIGHT) -> list[Answer]:
    """The extracted answers among the entries of a log. A field is right from a score of `right` on."""
    found: list[Answer] = []
    for entry in entries:
        scores, evidence = entry.get("scores") or {}, entry.get("fields") or {}
        fields = {name: numbers for name, numbers in evidence.items() if name in scores and FORMULA in numbers}
        if entry.get("ending") == "Extracted" and fields:
            good = {name: scores[name] >= right - _CLOSE for name in fields}
            found.append(Answer(f"{entry.get('suite')}:{entry['sample_id']}", fields, good))
    return found


def groups(answers: Sequence[Answer], count: int, seed: int) -> list[list[Answer]]:
    """The answers in so many groups of about the same size, by sample and by lot."""
    samples = sorted({answer.sample for answer in answers})
    random.Random(seed).shuffle(samples)
    group = {sample: index % count for index, sample in enumerate(samples)}
    made: list[list[Answer]] = [[] for _ in range(count)]
    for answer in answers:
        made[group[answer.sample]].append(answer)
    return made
