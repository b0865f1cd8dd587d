"""Recorded runs of questions, and the answers that `agree` would have made of them, as calibrators are fitted on them.

A record is one run of one question, as `trust.py` writes it. Several runs of a question are compared as
`rlm.agreement` does: no more of them than it would have made, and the answer is the one with the most support.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.agreement.settings import AgreementSettings
from rlm.agreement.vote import MISSING, Tally, same_answer, tally
from rlm.calibration.dataset import Answer

Record = dict[str, Any]
Made = Mapping[int, Any]
"""The outputs of the runs of one question, by number; None for a run without an answer."""

OF_RUNS = ("compared", "dissent", "backers", "silent")


@dataclass(frozen=True)
class Asked:
    """The answer of some number of runs to one question."""

    answer: Answer
    group: str
    """Answers of one group are never on both sides of a fit: the log, or the sample of a generated suite."""

    has_answer: bool
    confidence: float
    """That of today: 1 for a submitted answer, the formula for an extracted one, 0 without an answer."""

    tokens: int
    seconds: float

    @property
    def correct(self) -> bool:
        return self.has_answer and self.answer.all_correct


def read(path: Path) -> list[Record]:
    """Return the lines of a file, without one that was cut off."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def is_decided(answers: Made, runs: int) -> bool:
    """Return whether `agree` would make no more of so many runs."""
    made = [run for run in range(runs) if run in answers]
    if runs < 2:
        return False
    if len(made) < AgreementSettings(runs).first_round:
        return False
    return tally({run: answers[run] for run in made if answers[run] is not None}).is_decided(runs - len(made))


def asked(records: Iterable[Record], runs: int) -> list[Asked]:
    """Return the answer of `runs` runs to each question that has so many, or so many that decide."""
    by_sample: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda one: one["run"]):
        by_sample[record["sample"]].append(record)
    found = []
    for made in by_sample.values():
        first = _needed([one for one in made if one["run"] < runs], runs)
        if first:
            found.append(_asked(first))
    return found


def single(records: Iterable[Record]) -> list[Asked]:
    """Return every run alone."""
    return [_asked([record]) for record in records]


def masked(answer: Answer, names: Iterable[str]) -> Answer:
    """Return an answer with some of its features."""
    known = set(names)
    rows = {field: {name: row[name] for name in row if name in known} for field, row in answer.fields.items()}
    return replace(answer, fields=rows)


def _needed(made: Sequence[Record], runs: int) -> list[Record]:
    """Return the runs that `agree` would have made; none if some are missing."""
    for count in range(1, len(made) + 1):
        outputs = {one["run"]: one["outputs"] for one in made[:count]}
        if count == runs or (runs > 1 and is_decided(outputs, runs)):
            return list(made[:count])
    return []


def _asked(made: Sequence[Record]) -> Asked:
    answers = {one["run"]: one["outputs"] for one in made if one["outputs"] is not None}
    about = {"tokens": sum(one["tokens"] for one in made), "seconds": sum(one["seconds"] for one in made)}
    group, sample = made[0]["group"], f"{made[0]['suite']}:{made[0]['sample']}"
    if not answers:
        return Asked(Answer(sample, {}, {}), group, has_answer=False, confidence=0.0, **about)
    votes = tally(answers)
    record = max(
        (one for one in made if one["run"] in answers),
        key=lambda one: (votes.support(one["run"]), one["ending"] == "Submitted", one["confidence"], -one["run"]),
    )
    names = [name for name in record["scores"] if name in record["fields"]]
    rows = {name: {**record["fields"][name], **_of_runs(votes, record["outputs"], name, len(made))} for name in names}
    correct = {name: record["scores"][name] >= 1 - 1e-9 for name in names}
    confidence = 1.0 if record["ending"] == "Submitted" else float(record["confidence"])
    return Asked(Answer(sample, rows, correct, record["ending"]), group, True, confidence, **about)


def _of_runs(votes: Tally, outputs: Mapping[str, Any], name: str, runs: int) -> dict[str, float]:
    """Return the features of agreement for one field, as `rlm.repl.trust.with_agreement` has them."""
    if runs < 2:
        return {}
    found = {"silent": (runs - votes.answers) / (runs - 1)}
    if votes.answers > 1:
        counts = [_count(vote, outputs) for vote in votes.votes if vote.path[0] == name]
        agree = min(counts, default=1)
        found |= {"compared": 1.0, "backers": math.log1p(agree - 1)}
        found["dissent"] = (votes.answers - agree) / (votes.answers - 1)
    return {feature: value for feature, value in found.items() if value}


def _count(vote: Any, outputs: Mapping[str, Any]) -> int:
    value: Any = outputs
    for step in vote.path:
        value = value.get(step, MISSING) if isinstance(value, Mapping) else MISSING
    return next((len(runs) for other, runs in vote.groups if same_answer(other, value)), 1)
