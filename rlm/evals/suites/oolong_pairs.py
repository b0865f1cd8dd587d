"""Suite `oolong-pairs`: the 20 tasks of OOLONG-Pairs (arXiv 2512.24601, appendix), scored by F1 over pairs of users."""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations

from .corpora import LABELS, Corpora
from .dice import Dice
from .labelled_lines import Line, labelled_lines
from .suite import GeneratedTask, Suite

_ASKED = "In the above data, list all pairs of user IDs (no duplicate pairs, list lower ID first) {condition}."
_LABELS = (
    " Each of the questions can be labelled as one of the labels (the data does not provide the labels, you need to "
    "figure out the label from the semantics of the question): "
    f"{', '.join(LABELS.values())}. A pair is a list of two user IDs."
)

TASKS = tuple(files(__package__).joinpath("texts", "oolong_pairs.txt").read_text("utf-8").splitlines())
"""The conditions of the 20 tasks. What a condition asks of a user is read from its words, so the two cannot differ."""

_NUMBERS = {"one": 1, "two": 2}
_LABEL = "|".join(sorted(LABELS.values(), key=len, reverse=True))
_AMOUNT = re.compile(rf"(?:(at least|exactly) )?(one|two) (?:instances? )?with ({_LABEL})")
_EITHER = re.compile(rf"at least one instance with an? ({_LABEL}) or ({_LABEL})")
_DATED = re.compile(rf"all instances that are an? ({_LABEL}) for both users must be (before|after) (\w+ \d+, \d+)")

Fits = Callable[[Sequence[Line]], bool]


@dataclass(frozen=True)
class Condition:
    """What is asked of the one user of a pair, and of the other."""

    one: Fits
    other: Fits

    def pairs(self, by_user: dict[int, list[Line]]) -> list[list[int]]:
        """Return the pairs that fit, either way round."""
        first = {user for user, lines in by_user.items() if self.one(lines)}
        second = {user for user, lines in by_user.items() if self.other(lines)}
        return [
            [one, other]
            for one, other in combinations(sorted(by_user), 2)
            if (one in first and other in second) or (other in first and one in second)
        ]


def read_condition(text: str) -> Condition:
    """Return the condition that a task states. Raises `ValueError` if it cannot be read."""
    if either := _EITHER.search(text):
        fits = _both(either.groups(), _DATED.search(text))
        return Condition(fits, fits)
    one, comma, other = text.partition(", and the other user has ")
    if not comma:
        raise ValueError(f"no condition can be read from {text!r}")
    return Condition(_amounts(one), _amounts(other))


def _both(labels: Sequence[str], dated: re.Match[str] | None) -> Fits:
    day = datetime.datetime.strptime(dated[3], "%B %d, %Y").date() if dated else None

    def fits(lines: Sequence[Line]) -> bool:
        if not any(line.label in labels for line in lines):
            return False
        if dated is None or day is None:
            return True
        days = [line.day for line in lines if line.label == dated[1]]
        return all(date < day if dated[2] == "before" else date > day for date in days)

    return fits


def _amounts(text: str) -> Fits:
    asked = [(how or "at least", _NUMBERS[number], label) for how, number, label in _AMOUNT.findall(text)]
    if not asked:
        raise ValueError(f"no amounts can be read from {text!r}")

    def fits(lines: Sequence[Line]) -> bool:
        counts = Counter(line.label for line in lines)
        return all(counts[label] == n if how == "exactly" else counts[label] >= n for how, n, label in asked)

    return fits


def _make(dice: Dice, length: int, corpora: Corpora, index: int) -> GeneratedTask:
    context, lines = labelled_lines(dice, length, corpora)
    by_user: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by_user[line.user].append(line)
    task = TASKS[index % len(TASKS)]
    pairs = read_condition(task).pairs(by_user)
    return GeneratedTask(
        _ASKED.format(condition=task) + _LABELS,
        {"context": context},
        {"answer": pairs},
        {"task": index % len(TASKS) + 1, "lines": len(lines), "users": len(by_user), "pairs": len(pairs)},
    )


OOLONG_PAIRS = Suite(
    "oolong-pairs",
    "OOLONG-Pairs: the 20 tasks about pairs of users whose questions, by inferred labels, fit a condition.",
    "context: str -> answer: list[list[int]]",
    {"answer": "pairs"},
    _make,
    "questions",
)
