"""Scoring as the papers do: how near an output is to what was expected, from 0 to 1. Only values count, never form.

A scorer is chosen by name for each output (`Sample.scoring`). A missing output scores 0, and so does valid JSON with
wrong values in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from .equality import key_of, matched, number_of, same
from .sample import Sample

Scorer = Callable[[Any, Any], float]
"""From what was expected and what was given to a number from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Score:
    """How good an answer is: the mean over the outputs, and each of them."""

    total: float
    fields: dict[str, float]


def score(sample: Sample, outputs: Mapping[str, Any] | None) -> Score:
    """How good these outputs are; None is an answer that never came. Raises `ValueError` for an unknown scorer."""
    given = to_jsonable_python(dict(outputs or {}), fallback=str)
    fields = {}
    for name, expected in sample.expected.items():
        judge = scorer(sample.scoring.get(name, "exact"))
        if expected is None or given.get(name) is None:  # "there is none" is an answer, too, if it was given
            fields[name] = float(name in given and expected is given[name])
        else:
            fields[name] = judge(expected, given[name])
    return Score(sum(fields.values()) / len(fields) if fields else 0.0, fields)


def scorer(name: str) -> Scorer:
    """The scorer of that name. Raises `ValueError`."""
    if name not in SCORERS:
        raise ValueError(f"there is no scorer {name!r}; there are {', '.join(SCORERS)}")
    return SCORERS[name]


def exact(expected: Any, given: Any) -> float:
    """1 for the same value: see `rlm.evals.equality`."""
    return float(same(expected, given))


def number(expected: Any, given: Any) -> float:
    """`0.75 ** |expected - given|`: a count that is off by one still scores 0.75."""
    one, other = number_of(expected), number_of(given)
    if one is None or other is None:
        return 0.0
    try:
        apart = float(abs(one - other))
    except OverflowError:  # so many digits that no float holds them
        return 0.0
    return 0.75**apart if math.isfinite(apart) else 0.0


def same_items(expected: Any, given: Any) -> float:
    """1 for the same items in any order, each as often."""
    if not isinstance(expected, list) or not isinstance(given, list) or len(expected) != len(given):
        return 0.0
    return float(matched(expected, given) == len(expected))


def items_f1(expected: Any, given: Any) -> float:
    """F1 over items in any order: what is missing and what is too much both cost."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    one, other = ({key_of(item): item for item in items} for items in (expected, given))
    return _f1(len(one), len(other), matched([*one.values()], [*other.values()]))


def pairs_f1(expected: Any, given: Any) -> float:
    """F1 over pairs, each of which is the same in both orders."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    one, other = ({_pair_key(pair): pair for pair in pairs} for pairs in (expected, given))
    return _f1(len(one), len(other), matched([*one.values()], [*other.values()], _same_pair, ordered=False))


def values(expected: Any, given: Any) -> float:
    """The share of right values in a nested record. A value that is missing or made up counts as wrong.

    Lists are compared without order: each expected item with the most similar one that is left.
    """
    right, total = _compared(expected, given)
    return right / total


SCORERS: dict[str, Scorer] = {
    "exact": exact,
    "number": number,
    "set": same_items,
    "items": items_f1,
    "pairs": pairs_f1,
    "values": values,
}
MEANT_FOR = {"number": "numbers", "set": "lists", "items": "lists", "pairs": "lists of pairs"}
"""What a scorer can score; those that are not here can score everything."""


def _pair_key(pair: Any) -> Hashable:
    return tuple(sorted(map(key_of, pair), key=repr)) if _is_pair(pair) else key_of(pair)


def _same_pair(expected: Any, given: Any) -> bool:
    if not _is_pair(expected) or not _is_pair(given):
        return False
    return same(expected, given) or same(expected, given[::-1])


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _f1(expected: int, given: int, hits: int) -> float:
    return 2 * hits / (expected + given) if expected or given else 1.0


def _compared(expected: Any, given: Any) -> tuple[int, int]:
    """How many values are right, and of how many: of those on the side that has more."""
    if isinstance(expected, Mapping) and isinstance(given, Mapping) and expected:
        right = total = 0
        for key in expected.keys() | given.keys():
            if key in expected and key in given:
                one = _compared(expected[key], given[key])
            else:
                one = (0, _size(expected.get(key, given.get(key))))
            right, total = right + one[0], total + one[1]
        return right, total
    if isinstance(expected, list) and isinstance(given, list) and expected:
        return _compared_lists(expected, given)
    if isinstance(expected, Mapping | list) or isinstance(given, Mapping | list):
        return int(expected == given), max(_size(expected), _size(given))
    return int(same(expected, given)), 1


def _compared_lists(expected: list[Any], given: list[Any]) -> tuple[int, int]:
    right = total = 0
    left = list(given)
    found = [(_compared(one, other), i, j) for i, one in enumerate(expected) for j, other in enumerate(left)]
    found.sort(key=lambda one: (-one[0][0], one[0][1], abs(one[1] - one[2])))
    mine, theirs = set(range(len(expected))), set(range(len(left)))
    for (hits, size), i, j in found:
        if i in mine and j in theirs:
            mine.remove(i)
            theirs.remove(j)
            right, total = right + hits, total + size
    return right, total + sum(_size(expected[i]) for i in mine) + sum(_size(left[j]) for j in theirs)


def _size(value: Any) -> int:
    """How many values there are in a value; an empty list is one, too."""
    if isinstance(value, Mapping):
        return sum(_size(one) for one in value.values()) or 1
    if isinstance(value, list):
        return sum(_size(one) for one in value) or 1
    return 1
