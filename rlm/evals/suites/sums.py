"""Suite `sums`: aggregation by group, the office that paid most, from payments that a chronicle mentions."""

from __future__ import annotations

from collections import Counter

from .dice import Dice
from .prose import hide
from .suite import GeneratedTask, Suite
from .words import FIRST, LAST, PLACE, THING

_PAID = (
    "The {office} office paid {amount} coins to {name} for the {thing}.",
    "{name} received {amount} coins from the {office} office.",
    "For a {thing}, {amount} coins went from the {office} office to {name}.",
    "{amount} coins were paid by the {office} office, for the {thing} of {name}.",
)
_NOT_PAID = (
    "The {office} office refused to pay {amount} coins to {name}.",
    "{name} had asked the {office} office for {amount} coins and got nothing.",
    "The {office} office expects {amount} coins from {name} next year.",
)
_QUESTION = (
    "doc is a chronicle of many pages. Some of its sentences tell of coins that an office (named after its town) paid. "
    "Add up what each office really paid; money that was only asked for, refused or expected does not count. "
    "Which office paid the most in all, and how many coins was that? Give the office by the name of its town."
)


def _make(dice: Dice, length: int) -> GeneratedTask:
    offices = dice.some(PLACE, 6)
    totals: Counter[str] = Counter()
    lines: list[str] = []
    room = min(length // 3, 1_500_000)
    while room > 0:
        office, amount = dice.pick(offices), dice.between(11, 999)
        values = {
            "office": office,
            "amount": amount,
            "name": f"{dice.pick(FIRST)} {dice.pick(LAST)}",
            "thing": dice.pick(THING),
        }
        paid = dice.chance(0.8)
        lines.append(dice.pick(_PAID if paid else _NOT_PAID).format(**values))
        room -= len(lines[-1])
        totals[office] += amount if paid else 0
    ranks = totals.most_common(2)
    if len(ranks) > 1 and ranks[0][1] == ranks[1][1]:
        lines.append(f"The {ranks[0][0]} office paid 7 coins to {dice.pick(FIRST)} {dice.pick(LAST)} for the bell.")
        totals[ranks[0][0]] += 7
    (office, total), *_ = totals.most_common(1)
    doc = hide(dice, lines, length)
    return GeneratedTask(_QUESTION, {"doc": doc}, {"office": office, "total": total}, {"sentences": len(lines)})


SUMS = Suite(
    "sums",
    "Aggregate by groups: sums of amounts that are scattered over a text, and the largest of them.",
    "doc: str -> office: str, total: int",
    {"office": "exact", "total": "number"},
    _make,
)
