"""The reading of an oracle: the topic of a message, the contents of a letter, and misreadings of both."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from ..suites.dice import Dice
from ..suites.letters import COUNTS
from ..suites.messages import ASIDES, SAYINGS, TOPICS
from ..suites.words import MONTH
from .solutions import Facts

_DATE = (
    rf"(?:the )?(\d+)(?:th of)? ({'|'.join(MONTH)}) 2031",
    rf"({'|'.join(MONTH)}) (\d+), 2031",
)
_ANY_DATE = "(?:" + "|".join(re.sub(r"\((?!\?)", "(?:", form) for form in _DATE) + ")"
_MONEY = r"([\d,]+\.\d\d) coins"
_COUNT = f"({'|'.join(COUNTS)})"
_LINES = (
    rf"{_COUNT} (\w+) at {_MONEY} each",
    rf"(\w+), {_COUNT} of them, at {_MONEY} apiece",
    rf"{_COUNT} (\w+), each for {_MONEY}",
)


def topic_of(message: str) -> str:
    """Return the topic of a message, judged by its phrases."""
    known, words = _topic_phrases(), message.lower().split()
    for three in zip(words, words[1:], words[2:], strict=False):
        if (topic := known.get(three)) is not None:
            return topic
    return ""


@functools.cache
def _topic_phrases() -> dict[tuple[str, ...], str]:
    """Return sequences of three words that occur with one topic only."""
    topics_of: dict[tuple[str, ...], set[str]] = {}
    for topic, sayings in [*SAYINGS.items(), ("", ASIDES)]:
        for saying in sayings:
            for part in saying.literals():
                # A word beside a slot may be part of a longer word, such as a plural.
                words = re.findall(r"(?<!\S)\S+(?!\S)", part.lower())
                for three in zip(words, words[1:], words[2:], strict=False):
                    topics_of.setdefault(three, set()).add(topic)
    return {three: topics.pop() for three, topics in topics_of.items() if len(topics) == 1 and "" not in topics}


def read_letter(text: str) -> dict[str, Any]:
    """Return the record in a letter, without values that are not found."""
    record: dict[str, Any] = {"lines": _lines(text)}
    name = r"(\w+ \w+)"
    for form in (rf"what {name} ordered", rf"order of {name},", rf"{name} placed this order"):
        if match := re.search(form, text):
            record["customer"] = match[1]
    before = {"ordered": r"(?:ordered on|On|with us on) ", "due": r"(?:paid by|until|due on) "}
    for key, words in before.items():
        if match := re.search(f"{words}({_ANY_DATE})", text):
            record[key] = _iso(match[1])
    for form in (rf"that is {_MONEY}, to be", rf"Please pay {_MONEY}", rf"The sum of {_MONEY} is due"):
        if match := re.search(form, text):
            record["total"] = float(match[1].replace(",", ""))
    street = r"(\d+ \w+ Street)"
    if match := re.search(rf"goes to {street} in (\w+)|The address is {street}, (\w+)", text):
        record["address"] = {"street": match[1] or match[3], "town": match[2] or match[4]}
    elif match := re.search(rf"deliver to (\w+), {street}", text):
        record["address"] = {"street": match[2], "town": match[1]}
    return record


def _lines(text: str) -> list[dict[str, Any]]:
    listed = re.search(r"It is about: (.+?)\.\n", f"{text}\n")
    lines = []
    for item in listed[1].split("; ") if listed else []:
        for number, form in enumerate(_LINES):
            if match := re.fullmatch(form, item):
                things, count = (match[1], match[2]) if number == 1 else (match[2], match[1])
                quantity = COUNTS.index(count) + 1
                article = things.removesuffix("s") if quantity > 1 else things
                lines.append({"article": article, "quantity": quantity, "price": float(match[3].replace(",", ""))})
                break
    return lines


def _iso(date: str) -> str:
    day = re.search(r"\d+", date)
    month = re.search("|".join(MONTH), date)
    assert day is not None
    assert month is not None
    return f"2031-{MONTH.index(month[0]) + 1:02d}-{int(day[0]):02d}"


def misread_facts(dice: Dice, facts: Facts, rate: float) -> Facts:
    """Return the facts as they are misread: some are missing, some have the value of another fact."""
    result: Facts = []
    for fact in facts:
        if not dice.chance(rate):
            result.append(fact)
        elif dice.chance(0.5):
            result.append((*fact[:2], dice.pick(facts)[2]))
    return result


def misread_topic(dice: Dice, topic: str, rate: float) -> str:
    """Return the topic, or another one if it is misread."""
    return dice.pick([other for other in TOPICS if other != topic]) if not topic or dice.chance(rate) else topic


def misread_record(dice: Dice, value: Any, rate: float) -> Any:
    """Return the record with some values misread."""
    if isinstance(value, dict):
        return {key: misread_record(dice, item, rate) for key, item in value.items()}
    if isinstance(value, list):
        return [misread_record(dice, item, rate) for item in value]
    if not dice.chance(rate):
        return value
    if not isinstance(value, str):
        return value + dice.between(1, 9)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return f"{value[:8]}{int(value[8:]) % 28 + 1:02d}"  # still a date
    return f"{value[1:]}{value[0]}"


def as_json(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
