"""Counting and comparison, like OOLONG: over records whose label must be inferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from .dice import Dice
from .messages import TOPICS
from .records import FORM, Record, leaning, records, users
from .suite import Made, Suite
from .words import MONTH

_PARTS_FROM = 16_000
"""Shorter exports are asked about as a whole: a part of them would be a message or two."""


def _made(dice: Dice, length: int) -> tuple[str, list[Record], str, Callable[[Record], bool]]:
    """The export, its records, and the part of them that a question is about: in words, and as a test."""
    topics = leaning(dice)
    people = dict.fromkeys(users(dice, max(4, min(4_000, length // 3_000))), topics)
    doc, all_records = records(dice, length, people)
    kind = dice.pick(("all", "user", "month")) if length >= _PARTS_FROM else "all"
    if kind == "user":
        user = Counter(one.user for one in dice.some(all_records, min(9, len(all_records)))).most_common(1)[0][0]
        return doc, all_records, f" of user {user}", lambda one: one.user == user
    if kind == "month":
        month = dice.pick(all_records).date[5:7]
        return doc, all_records, f" of {MONTH[int(month) - 1]} 2031", lambda one: one.date[5:7] == month
    return doc, all_records, "", lambda one: True


def _count(dice: Dice, length: int) -> Made:
    doc, all_records, which, fits = _made(dice, length)
    topic = dice.pick(list(TOPICS))
    asked = f"{FORM}\nHow many of the messages{which} are about {topic}?"
    chosen = [one for one in all_records if fits(one)]
    number = sum(one.topic == topic for one in chosen)
    return Made(asked, {"doc": doc}, {"answer": number}, {"records": len(all_records), "concerned": len(chosen)})


def _compare(dice: Dice, length: int) -> Made:
    doc, all_records, which, fits = _made(dice, length)
    first, second = dice.some(list(TOPICS), 2)
    asked = (
        f"{FORM}\nAmong the messages{which}, are there more about {first} or more about {second}? "
        "Answer with that topic, or with 'same' if there are equally many."
    )
    chosen = [one for one in all_records if fits(one)]
    counts = Counter(one.topic for one in chosen)
    answer = "same" if counts[first] == counts[second] else max((first, second), key=lambda topic: counts[topic])
    meta = {"records": len(all_records), "concerned": len(chosen), "counts": [counts[first], counts[second]]}
    return Made(asked, {"doc": doc}, {"answer": answer}, meta)


_CHOICES = ", ".join(f'"{topic}"' for topic in (*TOPICS, "same"))

COUNT = Suite(
    "count",
    "Count records whose label must be inferred from what they say (like OOLONG).",
    "doc: str -> answer: int",
    {"answer": "number"},
    _count,
)
COMPARE = Suite(
    "compare",
    "Compare how many records have one inferred label or another (like OOLONG).",
    f"doc: str -> answer: Literal[{_CHOICES}]",
    {"answer": "exact"},
    _compare,
)
