"""Needle in a haystack: one key, one key among many, and one key with several values."""

from __future__ import annotations

from .dice import Dice
from .prose import hide
from .suite import Made, Suite
from .words import LAST, PLACE, THING

_SAID = (
    "The access code of the {key} is {value}.",
    "For the {key}, the access code is {value}.",
    "Whoever opens the {key} needs the access code {value}.",
    "Remember that {value} is the access code of the {key}.",
)
_ASIDE = (
    "The access code of the {key} was never written down.",
    "Somebody asked for the access code of the {key}, in vain.",
    "There is a draft in which the {key} has the door number {value}.",
)
_ASKED = "What is the access code of the {key}? doc is a chronicle of many pages; one sentence in it says so."
_ASKED_ALL = (
    "The {key} has several access codes, each in a sentence of its own somewhere in doc, a chronicle of many pages. "
    "List all access codes of the {key}, in any order."
)


def _keys(dice: Dice, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names[f"{dice.pick(LAST)} {dice.pick(THING)} in {dice.pick(PLACE)}"] = None
    return list(names)


def _code(dice: Dice, taken: set[int]) -> int:
    while (code := dice.between(100_000, 999_999)) in taken:
        pass
    taken.add(code)
    return code


def _say(dice: Dice, forms: tuple[str, ...], key: str, value: int) -> str:
    return dice.pick(forms).format(key=key, value=value)


def _single(dice: Dice, length: int) -> Made:
    return _among(dice, length, others=0)


def _many_keys(dice: Dice, length: int) -> Made:
    return _among(dice, length, others=max(4, min(2_000, length // 2_500)))


def _among(dice: Dice, length: int, others: int) -> Made:
    codes: set[int] = set()
    wanted, *rest = _keys(dice, 4 + others)
    value = _code(dice, codes)
    lines = [_say(dice, _SAID, wanted, value)]
    lines += [_say(dice, _SAID, key, _code(dice, codes)) for key in rest[3:]]
    lines += [_say(dice, _ASIDE, key, _code(dice, codes)) for key in rest[:3]]
    doc = hide(dice, dice.shuffled(lines), length)
    return Made(_ASKED.format(key=wanted), {"doc": doc}, {"answer": value}, {"keys": 1 + others})


def _many_values(dice: Dice, length: int) -> Made:
    codes: set[int] = set()
    wanted, *rest = _keys(dice, 7)
    values = [_code(dice, codes) for _ in range(dice.between(3, 6))]
    lines = [_say(dice, _SAID, wanted, value) for value in values]
    lines += [_say(dice, _SAID, key, _code(dice, codes)) for key in rest[3:]]
    lines += [_say(dice, _ASIDE, key, _code(dice, codes)) for key in rest[:3]]
    doc = hide(dice, dice.shuffled(lines), length)
    return Made(_ASKED_ALL.format(key=wanted), {"doc": doc}, {"answer": sorted(values)}, {"values": len(values)})


NEEDLE = Suite(
    "needle",
    "Find one fact in a long text: a code that one sentence gives.",
    "doc: str -> answer: int",
    {"answer": "exact"},
    _single,
)
NEEDLE_KEYS = Suite(
    "needle-keys",
    "Find one fact among many of its kind: the code of one key, with a key on every few pages.",
    "doc: str -> answer: int",
    {"answer": "exact"},
    _many_keys,
)
NEEDLE_VALUES = Suite(
    "needle-values",
    "Find all facts about one thing: several codes of one key, far apart.",
    "doc: str -> answer: list[int]",
    {"answer": "set"},
    _many_values,
)
