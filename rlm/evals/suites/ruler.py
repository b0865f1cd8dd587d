"""Suite `ruler`: the retrieval, tracing and aggregation tasks of RULER (arXiv 2404.06654), with its scoring."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .corpora import Corpora
from .dice import Dice
from .suite import GeneratedTask, Suite
from .words import WORDS

_NEEDLE = "One of the special magic {kind} for {key} is: {value}."
_NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
_QUESTION = "What are all the special magic {kind} for {keys} mentioned in the provided text?"
_ABOUT = "Some special magic {kind} are hidden within the text. "
_CONSONANTS = "bcdfghjklmnprstvwz"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HOPS = 4
_COMMON, _COMMON_TIMES, _OTHER_TIMES = 10, 30, 3
_ZIPF = 2.0
_CODED_WORDS = 2_000


@dataclass(frozen=True)
class _Needles:
    """The needles of a retrieval task: keys that are asked for, values of each, others, and the haystack."""

    haystack: str = "essay"
    keys: int = 1
    values: int = 1
    others: int = 0
    uuids: tuple[str, ...] = ()
    """Which of `key` and `value` are UUIDs in place of words and numbers."""


_RETRIEVAL = {
    "niah_single_1": _Needles("noise"),
    "niah_single_2": _Needles(),
    "niah_single_3": _Needles(uuids=("value",)),
    "niah_multikey_1": _Needles(others=3),
    "niah_multikey_2": _Needles("needles"),
    "niah_multikey_3": _Needles("needles", uuids=("key", "value")),
    "niah_multivalue": _Needles(values=4),
    "niah_multiquery": _Needles(keys=4),
}


def _retrieval(dice: Dice, length: int, corpora: Corpora, needles: _Needles) -> tuple[str, str, list[str]]:
    kind = "uuids" if "value" in needles.uuids else "numbers"
    wanted: dict[str, list[str]] = {}
    while len(wanted) < needles.keys:
        wanted[_key(dice, needles)] = [_value(dice, needles) for _ in range(needles.values)]
    keys = list(wanted)
    lines = [_NEEDLE.format(kind=kind, key=key, value=value) for key, values in wanted.items() for value in values]
    lines += [_other_needle(dice, needles, kind, keys) for _ in range(needles.others)]
    question = _ABOUT.format(kind=kind) + _QUESTION.format(kind=kind, keys=_listed(keys))
    context = _hidden(dice, length, lines, lambda room: _haystack(dice, room, corpora, needles, kind, keys))
    return question, context, [value for values in wanted.values() for value in values]


def _haystack(dice: Dice, room: int, corpora: Corpora, needles: _Needles, kind: str, asked: Sequence[str]) -> list[str]:
    if needles.haystack == "noise":
        return [_NOISE] * (room // (len(_NOISE) + 1))
    if needles.haystack == "needles":
        filled: list[str] = []
        while room > 0:
            filled.append(_other_needle(dice, needles, kind, asked))
            room -= len(filled[-1]) + 1
        return filled[:-1] or filled
    text = corpora.prose()
    start = dice.below(max(1, len(text) - room))
    taken = text[start : start + room]
    while len(taken) < room:
        taken += "\n" + text[: room - len(taken)]
    return taken.replace("\n", " ").split(". ")


def _hidden(dice: Dice, length: int, lines: Sequence[str], haystack: Callable[[int], list[str]]) -> str:
    """Return a haystack in which the lines are hidden, at random places between sentences."""
    sentences = haystack(max(0, length - sum(len(line) + 2 for line in lines)))
    places = sorted(dice.below(len(sentences) + 1) for _ in lines)
    for offset, (place, line) in enumerate(zip(places, dice.shuffled(lines), strict=True)):
        sentences.insert(place + offset, line.rstrip("."))
    joint = "\n" if sentences and sentences[-1].endswith(".") else ". "
    return joint.join(sentences)


def _other_needle(dice: Dice, needles: _Needles, kind: str, asked: Sequence[str]) -> str:
    while (key := _key(dice, needles)) in asked:
        pass
    return _NEEDLE.format(kind=kind, key=key, value=_value(dice, needles))


def _key(dice: Dice, needles: _Needles) -> str:
    if "key" in needles.uuids:
        return _uuid(dice)
    return "-".join(dice.pick(WORDS[kind]) for kind in ("quality", "trade", "thing")).replace(" ", "-")


def _value(dice: Dice, needles: _Needles) -> str:
    return _uuid(dice) if "value" in needles.uuids else str(dice.between(1_000_000, 9_999_999))


def _uuid(dice: Dice) -> str:
    return str(uuid.UUID(int=sum(dice.below(2**32) << shift for shift in (0, 32, 64, 96)), version=4))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"


def _variables(dice: Dice, length: int) -> tuple[str, str, list[str]]:
    names: dict[str, None] = {}
    while len(names) <= _HOPS:
        names["".join(dice.pick(_LETTERS) for _ in range(5))] = None
    chain, value = list(names), dice.between(10_000, 99_999)
    lines = [f"VAR {chain[0]} = {value}"] + [f"VAR {b} = VAR {a}" for a, b in pairwise(chain)]
    sentences = [_NOISE] * max(1, (length - sum(map(len, lines))) // (len(_NOISE) + 1))
    places = sorted(dice.below(len(sentences) + 1) for _ in lines)
    for offset, (place, line) in enumerate(zip(places, lines, strict=True)):
        sentences.insert(place + offset, line)
    question = (
        "Chains of variable assignments are hidden in the text. Find all variables that are assigned the value "
        f"{value} in it, directly or through other variables. List their names."
    )
    return question, "\n".join(sentences), chain


def _common_words(dice: Dice, length: int) -> tuple[str, str, list[str]]:
    words = _made_up(dice)
    common: list[str] = [next(words) for _ in range(_COMMON)]
    others: list[str] = []
    number = _COMMON * _COMMON_TIMES
    size = sum(len(f"{place}. {common[0]} ") for place in range(1, number + 1))
    while size < length or not others:
        others.append(next(words))
        size += sum(len(f"{number + more}. {others[-1]} ") for more in range(1, _OTHER_TIMES + 1))
        number += _OTHER_TIMES
    listed = dice.shuffled(common * _COMMON_TIMES + others * _OTHER_TIMES)
    context = " ".join(f"{place}. {word}" for place, word in enumerate(listed, 1))
    question = (
        "The text is a numbered list of words. In these words, some appear more often than others. "
        f"What are the {_COMMON} most common words in the list?"
    )
    return question, context, common


def _frequent_words(dice: Dice, length: int) -> tuple[str, str, list[str]]:
    words = _made_up(dice)
    vocabulary = [next(words) for _ in range(_CODED_WORDS)]
    weights = [1 / rank**_ZIPF for rank in range(1, _CODED_WORDS + 1)]
    share = max(200, int(length / 7.2)) / sum(weights)
    listed = [word for word, weight in zip(vocabulary, weights, strict=True) for _ in range(round(share * weight))]
    listed += ["..."] * max(0, int((length - sum(len(word) + 1 for word in listed)) / 4))
    question = (
        "The text is coded: words, and dots '...' to ignore. Find the three most frequently appeared coded words. "
        "What are the three most frequently appeared words in the text?"
    )
    return question, " ".join(dice.shuffled(listed)), vocabulary[:3]


def _made_up(dice: Dice) -> Iterator[str]:
    """Yield words that no language has, each once."""
    seen: set[str] = set()
    while True:
        word = "".join(dice.pick(_CONSONANTS) + dice.pick("aeiou") for _ in range(3))
        if word not in seen:
            seen.add(word)
            yield word


_AGGREGATION: dict[str, Callable[[Dice, int], tuple[str, str, list[str]]]] = {
    "vt": _variables,
    "cwe": _common_words,
    "fwe": _frequent_words,
}
TASKS = (*_RETRIEVAL, *_AGGREGATION)


def _make(dice: Dice, length: int, corpora: Corpora, index: int) -> GeneratedTask:
    task = TASKS[index % len(TASKS)]
    if task in _RETRIEVAL:
        question, context, answer = _retrieval(dice, length, corpora, _RETRIEVAL[task])
    else:
        question, context, answer = _AGGREGATION[task](dice, length)
    return GeneratedTask(question, {"context": context}, {"answer": answer}, {"task": task})


RULER = Suite(
    "ruler",
    "RULER: eight retrieval tasks, variable tracing, common and frequent words, with the official scoring.",
    "context: str -> answer: list[str]",
    {"answer": "contains"},
    _make,
    "prose",
)
