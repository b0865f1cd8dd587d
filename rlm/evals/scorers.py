"""Scorers: how close an output is to the expected value, from 0 to 1. Only values count, not how they are written.

A sample names a scorer for each output (`Sample.scoring`). A missing output scores 0, as does valid JSON with wrong
values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from ..equality import count_matches, equal, hash_key, parse_number
from .sample import Sample

Scorer = Callable[[Any, Any], float]
"""From the expected value and the given one to a score from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of an answer: the mean over its outputs, and the score of each."""

    total: float
    fields: dict[str, float]


def score(sample: Sample, outputs: Mapping[str, Any] | None) -> Score:
    """Score the outputs of a sample; None if there is no answer. Raises `ValueError` for an unknown scorer."""
    given = to_jsonable_python(dict(outputs or {}), fallback=str)
    fields = {}
    for name, expected in sample.expected.items():
        scorer = scorer_named(sample.scoring.get(name, "exact"))
        if expected is None or given.get(name) is None:  # null is an answer, too, if it was given
            fields[name] = float(name in given and expected is given[name])
        else:
            fields[name] = scorer(expected, given[name])
    return Score(sum(fields.values()) / len(fields) if fields else 0.0, fields)


def scorer_named(name: str) -> Scorer:
    """Return the scorer with a name. Raises `ValueError`."""
    if name not in SCORERS:
        raise ValueError(f"there is no scorer {name!r}; scorers are {', '.join(SCORERS)}")
    return SCORERS[name]


def exact(expected: Any, given: Any) -> float:
    """Return 1 for equal values: see `rlm.equality`."""
    return float(equal(expected, given))


def number(expected: Any, given: Any) -> float:
    """Return `0.75 ** |expected - given|`: a count that is off by one still scores 0.75."""
    wanted, found = parse_number(expected), parse_number(given)
    if wanted is None or found is None:
        return 0.0
    try:
        distance = float(abs(wanted - found))
    except OverflowError:  # larger than every float
        return 0.0
    return 0.75**distance if math.isfinite(distance) else 0.0


def same_items(expected: Any, given: Any) -> float:
    """Return 1 for the same items in any order, each the same number of times."""
    if not isinstance(expected, list) or not isinstance(given, list) or len(expected) != len(given):
        return 0.0
    return float(count_matches(expected, given) == len(expected))


def contains(expected: Any, given: Any) -> float:
    """Return the share of the expected texts that occur in the answer, in any case (RULER's `string_match_all`)."""
    wanted = expected if isinstance(expected, list) else [expected]
    text = (", ".join(map(str, given)) if isinstance(given, list) else str(given)).lower()
    return sum(str(word).lower() in text for word in wanted) / len(wanted) if wanted else 1.0


def items_f1(expected: Any, given: Any) -> float:
    """Return the F1 score over distinct items in any order."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    wanted, found = ({hash_key(item): item for item in items} for items in (expected, given))
    return _f1(len(wanted), len(found), count_matches([*wanted.values()], [*found.values()]))


def pairs_f1(expected: Any, given: Any) -> float:
    """Return the F1 score over pairs; the order within a pair does not matter."""
    if not isinstance(expected, list) or not isinstance(given, list):
        return 0.0
    wanted, found = ({_pair_key(pair): pair for pair in pairs} for pairs in (expected, given))
    matches = count_matches([*wanted.values()], [*found.values()], _equal_pairs, ordered=False)
    return _f1(len(wanted), len(found), matches)


def values(expected: Any, given: Any) -> float:
    """Return the share of correct values in a nested record. A missing value and a surplus one count as wrong.

    Lists are compared without order: each expected item with the most similar item that is left.
    """
    correct, total = _compare(expected, given)
    return correct / total


SCORERS: dict[str, Scorer] = {
    "exact": exact,
    "number": number,
    "set": same_items,
    "items": items_f1,
    "contains": contains,
    "pairs": pairs_f1,
    "values": values,
}
SCORED_TYPES = {"number": "numbers", "set": "lists", "items": "lists", "pairs": "lists of pairs"}
"""The values that a scorer is for; the others are for all values."""


def _pair_key(pair: Any) -> Hashable:
    return tuple(sorted(map(hash_key, pair), key=repr)) if _is_pair(pair) else hash_key(pair)


def _equal_pairs(expected: Any, given: Any) -> bool:
    if not _is_pair(expected) or not _is_pair(given):
        return False
    return equal(expected, given) or equal(expected, given[::-1])


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _f1(expected: int, given: int, matches: int) -> float:
    return 2 * matches / (expected + given) if expected or given else 1.0


def _compare(expected: Any, given: Any) -> tuple[int, int]:
    """Return the number of correct values, and the number of values on the side that has more."""
    if isinstance(expected, Mapping) and isinstance(given, Mapping) and expected:
        correct = total = 0
        for key in expected.keys() | given.keys():
            if key in expected and key in given:
                hits, size = _compare(expected[key], given[key])
            else:
                hits, size = 0, _size(expected.get(key, given.get(key)))
            correct, total = correct + hits, total + size
        return correct, total
    if isinstance(expected, list) and isinstance(given, list) and expected:
        return _compare_lists(expected, given)
    if isinstance(expected, Mapping | list) or isinstance(given, Mapping | list):
        return int(expected == given), max(_size(expected), _size(given))
    return int(equal(expected, given)), 1


def _compare_lists(expected: list[Any], given: list[Any]) -> tuple[int, int]:
    correct = total = 0
    pairs = [(_compare(a, b), i, j) for i, a in enumerate(expected) for j, b in enumerate(given)]
    pairs.sort(key=lambda pair: (-pair[0][0], pair[0][1], abs(pair[1] - pair[2])))
    left, right = set(range(len(expected))), set(range(len(given)))
    for (hits, size), i, j in pairs:
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            correct, total = correct + hits, total + size
    return correct, total + sum(_size(expected[i]) for i in left) + sum(_size(given[j]) for j in right)


def _size(value: Any) -> int:
    """Return the number of values in a value; an empty collection counts as one."""
    if isinstance(value, Mapping):
        return sum(_size(item) for item in value.values()) or 1
    if isinstance(value, list):
        return sum(_size(item) for item in value) or 1
    return 1
