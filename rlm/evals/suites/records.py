"""Records of messages whose topic is not written: what the suites that are like OOLONG have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .dice import Dice
from .messages import TOPICS, message
from .prose import exactly

FORM = (
    "doc is the export of a shop's inbox. After a note at the top, each line is one message: "
    "'date | user number | text'. Each message is about exactly one of these topics, which is not written in it "
    "but follows from what it says:\n" + "\n".join(f"- {topic}: {about}" for topic, about in TOPICS.items())
)
"""What is said about `doc` in the instructions."""

_NOTE = 160
"""Characters of the note at the top, at least; it makes up for lines that do not fit a length exactly."""


@dataclass(frozen=True, slots=True)
class Record:
    """One message and what it is about."""

    date: str
    user: int
    topic: str
    text: str

    def line(self) -> str:
        """As it stands in the export: without the topic."""
        return f"{self.date} | user {self.user} | {self.text}"


def records(dice: Dice, length: int, topics_of: Mapping[int, Sequence[str]]) -> tuple[str, list[Record]]:
    """An export of about so many characters, in order of dates, and its records.

    `topics_of` has the users, and for each the topics that they write about; one that is named more often is likelier.
    """
    users = list(topics_of)
    made: list[Record] = []
    room = length - _NOTE
    while True:
        user = dice.pick(users)
        topic = dice.pick(topics_of[user])
        record = Record("", user, topic, message(dice, topic))
        room -= len(record.text) + len(str(user)) + 22  # the date, the bars, the line's end
        if room < 0:
            break
        made.append(record)
    days = sorted(dice.below(360) for _ in made)
    made = [
        Record(f"2031-{day // 30 + 1:02d}-{day % 30 % 28 + 1:02d}", one.user, one.topic, one.text)
        for day, one in zip(days, made, strict=True)
    ]
    lines = [one.line() for one in made]
    size = sum(len(line) + 1 for line in lines)
    note = "Note of the archivist: " + exactly(dice, length - size - 23)
    return "\n".join([note, *lines]), made


def users(dice: Dice, count: int) -> list[int]:
    """Numbers of users."""
    return dice.some(range(10_000, 99_999), count)


def leaning(dice: Dice) -> list[str]:
    """All topics, some of them more often than others."""
    return [topic for topic in TOPICS for _ in range(dice.between(1, 6))]
