"""Suite `logs`: counts, most frequent and distinct values, sums and groups over real logs (logpai/loghub)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from .corpora import Corpora, LogCorpus
from .dice import Dice
from .suite import GeneratedTask, Suite

_MOST_GROUPS = 8
_TRIES = 100
_HEADER = ("LineId", "Content", "EventId", "EventTemplate")
_VARIABLE = "<*>"

Row = dict[str, str]
Asked = tuple[str, str, Any]


class _Unfit(Exception):
    """A question has no one answer on these lines."""


def _fields(rows: Sequence[Row]) -> list[str]:
    """Return the fields that say something: with several values, not a different one in each line."""
    found = []
    for name in rows[0]:
        values = {row[name] for row in rows}
        if name not in _HEADER and 1 < len(values) < len(rows) / 2 and all(len(value) <= 80 for value in values):
            found.append(name)
    if not found:
        raise _Unfit
    return found


def _events(rows: Sequence[Row], least: int = 2) -> dict[str, list[Row]]:
    by_event: dict[str, list[Row]] = {}
    for row in rows:
        by_event.setdefault(row["EventTemplate"], []).append(row)
    return {event: found for event, found in by_event.items() if len(found) >= least and _words(event)}


def _words(template: str) -> str:
    """Return the longest constant part of a template, for a question that quotes it; empty if it is short."""
    part = max(template.split(_VARIABLE), key=len).strip(" .:,;=[]()\"'")
    return part if len(part) >= 8 else ""


def _count(dice: Dice, rows: Sequence[Row]) -> Asked:
    if dice.chance(0.5):
        words = _words(dice.pick(list(_events(rows))))
        number = sum(words.lower() in row["Content"].lower() for row in rows)
        return f"How many lines have a message that contains '{words}' (in any case of letters)?", "int", number
    field = dice.pick(_fields(rows))
    value = dice.pick(sorted({row[field] for row in rows}))
    return f"How many lines have the {field.lower()} '{value}'?", "int", sum(row[field] == value for row in rows)


def _most_frequent(dice: Dice, rows: Sequence[Row]) -> Asked:
    field = dice.pick(_fields(rows))
    ranked = Counter(row[field] for row in rows).most_common(2)
    if ranked[0][1] == ranked[1][1]:
        raise _Unfit
    return f"Which {field.lower()} has the most lines?", "str", ranked[0][0]


def _distinct(dice: Dice, rows: Sequence[Row]) -> Asked:
    field = dice.pick(_fields(rows))
    return f"How many different values of the {field.lower()} are there?", "int", len({row[field] for row in rows})


def _sum(dice: Dice, rows: Sequence[Row]) -> Asked:
    events = [event for event in _events(rows) if re.search(r"[A-Za-z] ?[=:]? ?<\*>", event)]
    if not events:
        raise _Unfit
    event = dice.pick(events)
    match = re.search(r"([A-Za-z][A-Za-z ]{3,30}[=:]? ?)<\*>", event)
    if match is None:
        raise _Unfit
    before = match[1]
    pattern = re.compile(rf"{re.escape(before)}(\d+)(?![\w.])")
    numbers = [int(found) for row in rows for found in pattern.findall(row["Content"])]
    if len(numbers) < 2 or max(numbers) > 10**9:
        raise _Unfit
    return f"What is the sum of all whole numbers N that stand in '{before}N'?", "int", sum(numbers)


def _groups(dice: Dice, rows: Sequence[Row]) -> Asked:
    fields = [field for field in _fields(rows) if len({row[field] for row in rows}) <= _MOST_GROUPS]
    if not fields:
        raise _Unfit
    field = dice.pick(fields)
    return (
        f"How many lines are there of each {field.lower()}?",
        "dict[str, int]",
        dict(Counter(row[field] for row in rows)),
    )


_KINDS: tuple[tuple[str, Callable[[Dice, Sequence[Row]], Asked]], ...] = (
    ("count", _count),
    ("most frequent", _most_frequent),
    ("distinct", _distinct),
    ("sum", _sum),
    ("groups", _groups),
)


def _make(dice: Dice, length: int, corpora: Corpora, index: int) -> GeneratedTask:
    logs = corpora.logs()
    kind, ask = _KINDS[index % len(_KINDS)]
    for _ in range(_TRIES):
        log = dice.pick(logs)
        text, rows = _beginning(log, length)
        try:
            question, type, answer = ask(dice, rows)
            break
        except _Unfit:
            continue
    else:
        raise ValueError(f"no question of the kind {kind} has one answer on {length:,} characters of these logs")
    names = " ".join(name.lower() for name in rows[0] if name not in _HEADER)
    instructions = f"The log has lines with these fields, in this order, and then a message: {names}. {question}"
    return GeneratedTask(
        instructions,
        {"log": text},
        {"answer": answer},
        {"kind": kind, "log": log.name, "lines": len(rows)},
        f"log: str -> answer: {type}",
    )


def _beginning(log: LogCorpus, length: int) -> tuple[str, tuple[Row, ...]]:
    """Return the first lines of a log, of at most `length` characters, and their fields."""
    size = number = 0
    while number < len(log.lines) and size + len(log.lines[number]) < length:
        size += len(log.lines[number]) + 1
        number += 1
    return "\n".join(log.lines[:number]), log.rows[:number]


LOGS = Suite(
    "logs",
    "Counts, most frequent and distinct values, sums and groups over real logs.",
    "log: str -> answer: str",
    {"answer": "exact"},
    _make,
    "logs",
)
