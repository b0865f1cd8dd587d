"""Equality of values as people judge it: of two values, and of the items of two lists in any order."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

Number = int | float

_RELATIVE_TOLERANCE = 1e-9

_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?|\.[0-9]+)(?:e[+-]?[0-9]+)?")
"""A number as people write it, with or without commas between thousands: `007` and `1,2` do not match."""

_MAX_DIGITS = 4_000
"""The digits of the longest integer that Python parses."""


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal. Integers are compared exactly, texts normalized, floats to nine digits.

    A text is equal to a number if it spells that number.
    """
    if _is_number(left) and _is_number(right):
        return _equal_numbers(left, right)
    if left is None or right is None:
        return left is right
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        return isinstance(left, Mapping) and isinstance(right, Mapping) and _equal_mappings(left, right)
    if _is_list(left) or _is_list(right):
        both = _is_list(left) and _is_list(right) and len(left) == len(right)
        return both and all(equal(*pair) for pair in zip(left, right, strict=True))
    if _is_number(left) or _is_number(right):
        value, text = (left, right) if _is_number(left) else (right, left)
        number = parse_number(text)
        return number is not None and _equal_numbers(value, number)
    return normalize_text(left) == normalize_text(right)


def same_meaning(left: Any, right: Any) -> bool:
    """Return whether two answers mean the same: as `equal`, with the items of lists in any order."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and count_matches(left, right, same_meaning) == len(left)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_meaning(value, right[key]) for key, value in left.items())
    return equal(left, right)


def parse_number(value: Any) -> Number | None:
    """Return a number as it is, and a text as the number that it spells; None for all else. True is no number."""
    if _is_number(value):
        return value  # type: ignore[no-any-return]
    if not isinstance(value, str):
        return None
    text = normalize_text(value).replace("\N{MINUS SIGN}", "-")
    if _NUMBER.fullmatch(text) is None:
        return None
    digits = text.replace(",", "")
    is_integer = digits.lstrip("+-").isdigit() and len(digits) <= _MAX_DIGITS
    return int(digits) if is_integer else float(digits)


def normalize_text(value: Any) -> str:
    """Return a text without differences of case and spaces, surrounding quotes and a final full stop."""
    text = " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
    return text.strip("\"'`").rstrip(".").strip("\"'` ") or text


def hash_key(value: Any) -> Hashable:
    """Return a key that equal values share if they are written in the same way."""
    return _key(value, lambda text: ("text", normalize_text(text)))


def count_matches(
    expected: Sequence[Any], given: Sequence[Any], match: Callable[[Any, Any], bool] = equal, *, ordered: bool = True
) -> int:
    """Return how many expected items can be paired with a given one that matches.

    If not `ordered`, items are pairs in either order. Numbers and texts are looked up by key; only floats, which may
    differ slightly, are tried one by one.
    """
    buckets: dict[Hashable, list[Any]] = defaultdict(list)
    for item in given:
        buckets[_bucket(item, ordered)].append(item)
    unmatched = [item for item in expected if not _take(buckets[_bucket(item, ordered)], item, match)]
    rest = [item for bucket in buckets.values() for item in bucket]
    hits = len(expected) - len(unmatched)
    hits += sum(_take(rest, item, match) for item in unmatched if _has_float(item))
    floats = [item for item in rest if _has_float(item)]
    return hits + sum(_take(floats, item, match) for item in unmatched if not _has_float(item))


def _take(items: list[Any], wanted: Any, match: Callable[[Any, Any], bool]) -> bool:
    """Remove the first item that matches; return whether there is one."""
    for index, item in enumerate(items):
        if match(wanted, item):
            del items[index]
            return True
    return False


def _bucket(value: Any, ordered: bool) -> Hashable:
    """Return the key by which a value is looked up: a text that spells a number has the key of the number."""

    def text_key(text: Any) -> Hashable:
        number = parse_number(text)
        return ("text", normalize_text(text)) if number is None else _number_key(number)

    key = _key(value, text_key)
    return key if ordered or not isinstance(key, tuple) else tuple(sorted(key, key=repr))


def _key(value: Any, text_key: Callable[[Any], Hashable]) -> Hashable:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return "record", frozenset((str(name), _key(item, text_key)) for name, item in value.items())
    if _is_list(value):
        return tuple(_key(item, text_key) for item in value)
    return _number_key(value) if _is_number(value) else text_key(value)


def _number_key(value: Number) -> Hashable:
    return "number" if value != value else value  # NaN is not equal to itself


def _has_float(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_float, value.values()))
    if _is_list(value):
        return any(map(_has_float, value))
    return isinstance(parse_number(value), float)


def _equal_numbers(left: Number, right: Number) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    try:
        return math.isclose(left, right, rel_tol=_RELATIVE_TOLERANCE) or (math.isnan(left) and math.isnan(right))
    except OverflowError:  # an integer that is larger than every float
        return False


def _equal_mappings(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    first, second = ({str(key): value for key, value in mapping.items()} for mapping in (left, right))
    return first.keys() == second.keys() and all(equal(value, second[key]) for key, value in first.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
