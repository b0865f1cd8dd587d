"""Suite `extract`: a nested record from one letter among many, with names, dates, amounts and a list."""

from __future__ import annotations

from typing import Any

from .dice import Dice
from .prose import exactly, sentence
from .suite import GeneratedTask, Suite
from .words import FIRST, LAST, MONTH, PLACE, THING

COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
"""Quantities in words, from one."""

_ORDERED = (
    "We confirm what {customer} ordered on {date}.",
    "On {date} we received the order of {customer}, for which we thank you.",
    "{customer} placed this order with us on {date}.",
)
_LINE = (
    "{count} {things} at {price} each",
    "{things}, {count} of them, at {price} apiece",
    "{count} {things}, each for {price}",
)
_SENT = (
    "Everything goes to {street} in {town}.",
    "We will deliver to {town}, {street}.",
    "The address is {street}, {town}.",
)
_TOTAL = (
    "All in all that is {total}, to be paid by {due}.",
    "Please pay {total} until {due}.",
    "The sum of {total} is due on {due}.",
)
_QUESTION = (
    "doc is a file of letters, each of which begins with a line 'Letter about order NUMBER'. "
    "From the letter about order {number}, take: customer (first and last name); ordered and due (the dates of the "
    "order and of the payment); total; address, with the keys street and town; and lines, a list of what was ordered, "
    "each with the keys article (one word, in the singular, as in 'lamp'), quantity (a whole number) and price (of one "
    "piece)."
)


def _make(dice: Dice, length: int) -> GeneratedTask:
    numbers = iter(dice.some(range(100_000, 999_999), max(3, length // 500)))
    letters: list[tuple[int, dict[str, Any]]] = []
    texts: list[str] = []
    size = 0
    while size < length - 900 or len(letters) < 2:
        number, record = next(numbers), _record(dice)
        letters.append((number, record))
        texts.append(_letter(dice, number, record))
        size += len(texts[-1]) + 2
    text = "\n\n".join(texts)
    text = f"{text}\n\nThe rest of the file is blank. {exactly(dice, length - len(text) - 33)}"
    number, record = dice.pick(letters)
    return GeneratedTask(
        _QUESTION.format(number=number), {"doc": text}, record, {"letters": len(letters), "order": number}
    )


def _record(dice: Dice) -> dict[str, Any]:
    lines: list[dict[str, Any]] = [
        {"article": thing, "quantity": dice.between(1, 12), "price": dice.between(150, 199_950) / 100}
        for thing in dice.some(_SINGULAR, dice.between(2, 5))
    ]
    month = dice.between(1, 11)
    return {
        "customer": f"{dice.pick(FIRST)} {dice.pick(LAST)}",
        "ordered": f"2031-{month:02d}-{dice.between(1, 28):02d}",
        "due": f"2031-{month + 1:02d}-{dice.between(1, 28):02d}",
        "total": round(sum(line["quantity"] * line["price"] for line in lines), 2),
        "address": {"street": f"{dice.between(1, 98)} {dice.pick(LAST)} Street", "town": dice.pick(PLACE)},
        "lines": lines,
    }


def _letter(dice: Dice, number: int, record: dict[str, Any]) -> str:
    ordered = dice.pick(_ORDERED).format(customer=record["customer"], date=_date(dice, record["ordered"]))
    listed = [
        dice.pick(_LINE).format(
            count=COUNTS[line["quantity"] - 1],
            things=line["article"] + ("s" if line["quantity"] > 1 else ""),
            price=_money(line["price"]),
        )
        for line in record["lines"]
    ]
    parts = [
        dice.pick(_SENT).format(**record["address"]),
        dice.pick(_TOTAL).format(total=_money(record["total"]), due=_date(dice, record["due"])),
        f"Order {number + 1} has nothing to do with this one.",
        sentence(dice),
        sentence(dice),
    ]
    opening = f"{ordered} It is about: {'; '.join(listed)}."
    return "\n".join([f"Letter about order {number}", opening, " ".join(dice.shuffled(parts))])


def _date(dice: Dice, iso: str) -> str:
    _, month, day = iso.split("-")
    name = MONTH[int(month) - 1]
    return dice.pick((f"{int(day)} {name} 2031", f"{name} {int(day)}, 2031", f"the {int(day)}th of {name} 2031"))


def _money(value: float) -> str:
    return f"{value:,.2f} coins"


_SINGULAR = [thing for thing in THING if not thing.endswith(("s", "y", "h", "x", "f"))]

LETTERS = Suite(
    "extract",
    "Take a nested record out of one letter among many: names, dates, amounts, an address, a list.",
    "doc: str -> customer: str, ordered: date, due: date, total: float, address: dict[str, str], "
    "lines: list[dict[str, Any]]",
    {
        "customer": "exact",
        "ordered": "exact",
        "due": "exact",
        "total": "exact",
        "address": "values",
        "lines": "values",
    },
    _make,
)
