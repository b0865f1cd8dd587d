"""Scoring as the papers do: how near an output is to what was expected, from 0 to 1. Only values count, never form.

A scorer is chosen by name for each output (`Sample.scoring`). A missing output scores 0, and so does valid JSON with
wrong values in it.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

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
    """1 for the same value. Case, spaces and a full stop at the end of a text do not matter."""
    return float(normal(expected) == normal(given))


def number(expected: Any, given: Any) -> float:
    """`0.75 ** |expected - given|`: a count that is off by one still scores 0.75."""
    values = [normal(expected), normal(given)]
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return 0.0
    return float(0.75 ** abs(values[0] - values[1]))


def same_items(expected: Any, given: Any) -> float:
    """1 for the same items in any order, each as often."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    return float(_counted(expected) == _counted(given))


def items_f1(expected: Any, given: Any) -> float:
    """F1 over items in any order: what is missing and what is too much both cost."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    return _f1({*_counted(expected)}, {*_counted(given)})


def pairs_f1(expected: Any, given: Any) -> float:
    """F1 over pairs, each of which is the same in both orders."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    return _f1({_pair(one) for one in expected}, {_pair(one) for one in given})


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


def normal(value: Any) -> Any:
    """A value in the form in which it is compared: numbers as numbers, texts without what does not matter."""
    if isinstance(value, bool):
        return str(value).lower()  # otherwise True would be 1
    if value is None:
        return value
    if isinstance(value, int | float):
        return _rounded(float(value))
    if isinstance(value, str):
        text = " ".join(unicodedata.normalize("NFKC", value).casefold().split()).strip("\"'`").rstrip(".")
        try:
            return _rounded(float(text.replace(",", "")))
        except ValueError:
            return text
    if isinstance(value, list | tuple):
        return tuple(normal(one) for one in value)
    if isinstance(value, Mapping):
        return tuple(sorted(((str(key), normal(one)) for key, one in value.items()), key=repr))
    return str(value)


def _rounded(value: float) -> float:
    return round(value, 6) if math.isfinite(value) else value


def _counted(items: list[Any]) -> Counter[Any]:
    return Counter(normal(one) for one in items)


def _pair(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(sorted((normal(one) for one in value), key=repr))
    return ("no pair", repr(value))


def _f1(expected: set[Any], given: set[Any]) -> float:
    if not expected and not given:
        return 1.0
    hits = len(expected & given)
    return 2 * hits / (len(expected) + len(given))


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
    return int(normal(expected) == normal(given)), 1


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
