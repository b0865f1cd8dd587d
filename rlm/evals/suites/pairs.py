"""Suite `pairs`: pairs of users who fit a condition, by the inferred labels of their messages, as in OOLONG-Pairs."""

from __future__ import annotations

from itertools import combinations

from .dice import Dice
from .messages import TOPICS
from .records import FORM, records, users
from .suite import GeneratedTask, Suite

_BOTH = "each of the two users has at least one message about {a} and at least one about {b}"
_APART = (
    "one of the two users has at least one message about {a} and none about {b}, "
    "and the other has at least one about {b} and none about {a}"
)


def _make(dice: Dice, length: int) -> GeneratedTask:
    people = users(dice, max(8, min(40, 6 + length // 6_000)))
    topics = list(TOPICS)
    doc, all_records = records(dice, length, {user: dice.some(topics, dice.between(2, 3)) for user in people})
    topics_of = {user: {record.topic for record in all_records if record.user == user} for user in people}
    for _ in range(50):
        (a, b), both = dice.some(topics, 2), dice.chance(0.5)
        pairs = [
            sorted(pair)
            for pair in combinations(people, 2)
            if _fits(topics_of[pair[0]], topics_of[pair[1]], a, b, both)
        ]
        if pairs:
            break
    question = (
        f"{FORM}\nList all pairs of users such that {(_BOTH if both else _APART).format(a=a, b=b)}. "
        "A pair is a list of two user numbers, the smaller one first; each pair is listed once."
    )
    return GeneratedTask(
        question, {"doc": doc}, {"answer": sorted(pairs)}, {"records": len(all_records), "users": len(people)}
    )


def _fits(first: set[str], second: set[str], a: str, b: str, both: bool) -> bool:
    if both:
        return {a, b} <= first and {a, b} <= second
    only = [topics & {a, b} for topics in (first, second)]
    return only in ([{a}, {b}], [{b}, {a}])


PAIRS = Suite(
    "pairs",
    "List the pairs of users whose records, by inferred labels, fit a condition (like OOLONG-Pairs).",
    "doc: str -> answer: list[list[int]]",
    {"answer": "pairs"},
    _make,
)
