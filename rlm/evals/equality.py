"""Whether two values are the same, as people mean it: of any two, and of the items of two lists in any order."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

Number = int | float

_NEAR = 1e-9
"""How far apart floats may be, as a share of the larger one."""

_WRITTEN = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
)
"""A number as people write it, with or without commas between thousands: `007` and `1,2` are none."""

_MOST_DIGITS = 4_000
"""Python reads no longer integers."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same. Integers are compared as integers, texts as texts, floats to nine digits.

    A text is the same as a number if it is that number as people write it.
    """
    if _is_number(one) and _is_number(other):
        return _same_numbers(one, other)
    if one is None or other is None:
        return one is other
    if isinstance(one, Mapping) or isinstance(other, Mapping):
        return isinstance(one, Mapping) and isinstance(other, Mapping) and _same_mappings(one, other)
    if _is_list(one) or _is_list(other):
        both = _is_list(one) and _is_list(other) and len(one) == len(other)
        return both and all(same(*pair) for pair in zip(one, other, strict=True))
    if _is_number(one) or _is_number(other):
        value, said = (one, other) if _is_number(one) else (other, one)
        meant = number_of(said)
        return meant is not None and _same_numbers(value, meant)
    return text_of(one) == text_of(other)


def number_of(value: Any) -> Number | None:
    """The number that a value is, or that a text says; None if it is none. True is no number."""
    if _is_number(value):
        return value  # type: ignore[no-any-return]
    if not isinstance(value, str):
        return None
    text = text_of(value).replace("\N{MINUS SIGN}", "-")
    if _WRITTEN.fullmatch(text) is None:
        return None
    digits = text.replace(",", "")
    whole = digits.lstrip("+-").isdigit() and len(digits) <= _MOST_DIGITS
    return int(digits) if whole else float(digits)


def text_of(value: Any) -> str:
    """A text without what does not matter: case, spaces, quotes around it, a full stop after it."""
    text = " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
    return text.strip("\"'`").rstrip(".").strip("\"'` ") or text


def key_of(value: Any) -> Hashable:
    """What two values have in common if they are the same and written the same way."""
    return _key(value, lambda one: ("text", text_of(one)))


def matched(
    expected: Sequence[Any], given: Sequence[Any], alike: Callable[[Any, Any], bool] = same, *, ordered: bool = True
) -> int:
    """How many of the items can be paired off, each with one that is alike. Unordered ones are pairs in either order.

    Items of the same number or text are looked up; only floats, which may differ a little, are tried one by one.
    """
    waiting: dict[Hashable, list[Any]] = defaultdict(list)
    for one in given:
        waiting[_place(one, ordered)].append(one)
    left = [one for one in expected if not _taken(waiting[_place(one, ordered)], one, alike)]
    rest = [one for several in waiting.values() for one in several]
    hits = len(expected) - len(left)
    hits += sum(_taken(rest, one, alike) for one in left if _has_float(one))
    floats = [one for one in rest if _has_float(one)]
    return hits + sum(_taken(floats, one, alike) for one in left if not _has_float(one))


def _taken(waiting: list[Any], one: Any, alike: Callable[[Any, Any], bool]) -> bool:
    """Take out the first that is alike, if there is one."""
    for at, other in enumerate(waiting):
        if alike(one, other):
            del waiting[at]
            return True
    return False


def _place(value: Any, ordered: bool) -> Hashable:
    """Where to look for a value: a text that says a number is where the number is."""
    key = _key(value, lambda one: ("text", text_of(one)) if (said := number_of(one)) is None else _number_key(said))
    return key if ordered or not isinstance(key, tuple) else tuple(sorted(key, key=repr))


def _key(value: Any, text: Callable[[Any], Hashable]) -> Hashable:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return "record", frozenset((str(key), _key(one, text)) for key, one in value.items())
    if _is_list(value):
        return tuple(_key(one, text) for one in value)
    return _number_key(value) if _is_number(value) else text(value)


def _number_key(value: Number) -> Hashable:
    return "number" if value != value else value  # nan is not even itself


def _has_float(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_float, value.values()))
    if _is_list(value):
        return any(map(_has_float, value))
    return isinstance(number_of(value), float)


def _same_numbers(one: Number, other: Number) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    try:
        return math.isclose(one, other, rel_tol=_NEAR) or (math.isnan(one) and math.isnan(other))
    except OverflowError:  # an integer that is larger than every float
        return False


def _same_mappings(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    mine, theirs = ({str(key): value for key, value in each.items()} for each in (one, other))
    return mine.keys() == theirs.keys() and all(same(value, theirs[key]) for key, value in mine.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
