"""Suites `needle`, `needle-keys` and `needle-values`: a fact in a long text, one of many, and several of one key."""

from __future__ import annotations

from .dice import Dice
from .prose import hide
from .suite import GeneratedTask, Suite
from .words import LAST, PLACE, THING

_FACTS = (
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
_QUESTION = "What is the access code of the {key}? doc is a chronicle of many pages; one sentence in it says so."
_QUESTION_ALL = (
    "The {key} has several access codes, each in a sentence of its own somewhere in doc, a chronicle of many pages. "
    "List all access codes of the {key}, in any order."
)


def _keys(dice: Dice, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names[f"{dice.pick(LAST)} {dice.pick(THING)} in {dice.pick(PLACE)}"] = None
    return list(names)


def _code(dice: Dice, used: set[int]) -> int:
    while (code := dice.between(100_000, 999_999)) in used:
        pass
    used.add(code)
    return code


def _phrase(dice: Dice, forms: tuple[str, ...], key: str, value: int) -> str:
    return dice.pick(forms).format(key=key, value=value)


def _single(dice: Dice, length: int) -> GeneratedTask:
    return _generate(dice, length, others=0)


def _many_keys(dice: Dice, length: int) -> GeneratedTask:
    return _generate(dice, length, others=max(4, min(2_000, length // 2_500)))


def _generate(dice: Dice, length: int, others: int) -> GeneratedTask:
    codes: set[int] = set()
    wanted, *rest = _keys(dice, 4 + others)
    value = _code(dice, codes)
    lines = [_phrase(dice, _FACTS, wanted, value)]
    lines += [_phrase(dice, _FACTS, key, _code(dice, codes)) for key in rest[3:]]
    lines += [_phrase(dice, _ASIDE, key, _code(dice, codes)) for key in rest[:3]]
    doc = hide(dice, dice.shuffled(lines), length)
    return GeneratedTask(_QUESTION.format(key=wanted), {"doc": doc}, {"answer": value}, {"keys": 1 + others})


def _many_values(dice: Dice, length: int) -> GeneratedTask:
    codes: set[int] = set()
    wanted, *rest = _keys(dice, 7)
    values = [_code(dice, codes) for _ in range(dice.between(3, 6))]
    lines = [_phrase(dice, _FACTS, wanted, value) for value in values]
    lines += [_phrase(dice, _FACTS, key, _code(dice, codes)) for key in rest[3:]]
    lines += [_phrase(dice, _ASIDE, key, _code(dice, codes)) for key in rest[:3]]
    doc = hide(dice, dice.shuffled(lines), length)
    return GeneratedTask(
        _QUESTION_ALL.format(key=wanted), {"doc": doc}, {"answer": sorted(values)}, {"values": len(values)}
    )


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
