"""The context of the OOLONG suites: questions with dates and users, whose labels must be inferred."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from .corpora import LABELS, Corpora
from .dice import Dice

FIRST_DAY, DAYS = datetime.date(2022, 4, 1), 1_200
_LINES_PER_USER = 12
_ABOUT = (
    "The {place} lines contain {count} general-knowledge questions, one per line. Each line has a date, a User ID, "
    "which is not necessarily unique (a user can be associated with several questions), and a question. Each question "
    "has an answer that can be described as one of 6 categories: {labels}. They are not labelled: the category has to "
    "be inferred from the question. Questions about the aggregate statistics of the labels concern all {count} lines. "
    "Do not guess, estimate or approximate the result: calculate the exact answer."
)


@dataclass(frozen=True, slots=True)
class Line:
    """One question of a user."""

    day: datetime.date
    user: int
    label: str
    text: str

    def __str__(self) -> str:
        return f"Date: {self.day:%b %d, %Y} || User: {self.user} || Instance: {self.text}"


def labelled_lines(dice: Dice, length: int, corpora: Corpora) -> tuple[str, list[Line]]:
    """Return a context of about `length` characters, and its lines. More lines than there are questions repeat them."""
    questions = corpora.questions()
    room = length - 2 * len(_about("following", 9_999)) - 4
    mean = sum(len(text) for _, text in questions) / len(questions) + 45
    users = _users(dice, max(4, int(room / mean / _LINES_PER_USER)))
    weights = [user for user in users for _ in range(dice.between(1, 6))]
    lines: list[Line] = []
    size, order = 0, dice.shuffled(questions)
    while True:
        label, text = order[len(lines) % len(order)]
        day = FIRST_DAY + datetime.timedelta(days=dice.below(DAYS))
        line = Line(day, dice.pick(weights), label, text)
        size += len(str(line)) + 1
        if size > room and lines:
            break
        lines.append(line)
    parts = [_about("following", len(lines)), "", *map(str, lines), _about("preceding", len(lines))]
    return "\n".join(parts), lines


def _users(dice: Dice, count: int) -> list[int]:
    users: dict[int, None] = {}
    while len(users) < count:
        users[dice.between(10_000, 99_999)] = None
    return list(users)


def _about(place: str, count: int) -> str:
    labels = ", ".join(f"'{label}'" for label in LABELS.values())
    return _ABOUT.format(place=place, count=count, labels=labels)
