"""Records of messages whose topic must be inferred, for the suites like OOLONG."""

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
"""The description of `doc` in the instructions."""

_MIN_NOTE = 160
"""The minimum length of the note at the top, which fills the text up to its exact length."""


@dataclass(frozen=True, slots=True)
class Record:
    """A message and its topic."""

    date: str
    user: int
    topic: str
    text: str

    def line(self) -> str:
        """Return the line of the export, without the topic."""
        return f"{self.date} | user {self.user} | {self.text}"


def records(dice: Dice, length: int, topics_of: Mapping[int, Sequence[str]]) -> tuple[str, list[Record]]:
    """Return an export of about so many characters, in order of dates, and its records.

    `topics_of` gives the topics of each user; a topic that is listed several times is more likely.
    """
    users = list(topics_of)
    unsorted: list[Record] = []
    room = length - _MIN_NOTE
    while True:
        user = dice.pick(users)
        topic = dice.pick(topics_of[user])
        record = Record("", user, topic, message(dice, topic))
        room -= len(record.text) + len(str(user)) + 22  # the date, the bars, the line's end
        if room < 0:
            break
        unsorted.append(record)
    days = sorted(dice.below(360) for _ in unsorted)
    result = [
        Record(f"2031-{day // 30 + 1:02d}-{day % 30 % 28 + 1:02d}", record.user, record.topic, record.text)
        for day, record in zip(days, unsorted, strict=True)
    ]
    lines = [record.line() for record in result]
    size = sum(len(line) + 1 for line in lines)
    note = "Note of the archivist: " + exactly(dice, length - size - 23)
    return "\n".join([note, *lines]), result


def users(dice: Dice, count: int) -> list[int]:
    """Return the numbers of so many users."""
    return dice.some(range(10_000, 99_999), count)


def weighted_topics(dice: Dice) -> list[str]:
    """Return all topics, some of them several times."""
    return [topic for topic in TOPICS for _ in range(dice.between(1, 6))]
