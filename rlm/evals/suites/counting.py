"""Suites `count` and `compare`: counts of records whose label must be inferred, as in OOLONG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from .dice import Dice
from .messages import TOPICS
from .records import FORM, Record, records, users, weighted_topics
from .suite import GeneratedTask, Suite
from .words import MONTH

_MIN_PART_LENGTH = 16_000
"""Questions about shorter exports concern all records: a part would be one or two messages."""


def _generate(dice: Dice, length: int) -> tuple[str, list[Record], str, Callable[[Record], bool]]:
    """Return the export, its records, and the part of them that the question concerns: in words and as a predicate."""
    topics = weighted_topics(dice)
    people = dict.fromkeys(users(dice, max(4, min(4_000, length // 3_000))), topics)
    doc, all_records = records(dice, length, people)
    kind = dice.pick(("all", "user", "month")) if length >= _MIN_PART_LENGTH else "all"
    if kind == "user":
        user = Counter(record.user for record in dice.some(all_records, min(9, len(all_records)))).most_common(1)[0][0]
        return doc, all_records, f" of user {user}", lambda record: record.user == user
    if kind == "month":
        month = dice.pick(all_records).date[5:7]
        return doc, all_records, f" of {MONTH[int(month) - 1]} 2031", lambda record: record.date[5:7] == month
    return doc, all_records, "", lambda record: True


def _count(dice: Dice, length: int) -> GeneratedTask:
    doc, all_records, part, is_in_part = _generate(dice, length)
    topic = dice.pick(list(TOPICS))
    question = f"{FORM}\nHow many of the messages{part} are about {topic}?"
    chosen = [record for record in all_records if is_in_part(record)]
    number = sum(record.topic == topic for record in chosen)
    return GeneratedTask(
        question, {"doc": doc}, {"answer": number}, {"records": len(all_records), "concerned": len(chosen)}
    )


def _compare(dice: Dice, length: int) -> GeneratedTask:
    doc, all_records, part, is_in_part = _generate(dice, length)
    first, second = dice.some(list(TOPICS), 2)
    question = (
        f"{FORM}\nAmong the messages{part}, are there more about {first} or more about {second}? "
        "Answer with that topic, or with 'same' if there are equally many."
    )
    chosen = [record for record in all_records if is_in_part(record)]
    counts = Counter(record.topic for record in chosen)
    answer = "same" if counts[first] == counts[second] else max((first, second), key=lambda topic: counts[topic])
    meta = {"records": len(all_records), "concerned": len(chosen), "counts": [counts[first], counts[second]]}
    return GeneratedTask(question, {"doc": doc}, {"answer": answer}, meta)


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
