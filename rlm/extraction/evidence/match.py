"""The search for typed values in text: numbers as numbers (`numbers.py`), strings as whole words in any script.

A substring test would find the digit `1` in most texts by chance. Strings are compared in NFKC, casefolded, with single
spaces, and only at word boundaries. All searches take linear time, and texts are read up to a size.

Not covered: dates other than ISO 8601 and their `repr`; inflected words.
"""

from __future__ import annotations

import bisect
import datetime
import enum
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any, TypeVar

from pydantic import BaseModel

from ...json_values import Path

Number = int | float

_MAX_NUMBER_CHARS = 400  # of one number
# Scripts without spaces between words: there is a boundary next to each character.
SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SEPARATORS = ".,'\u2019_\u00a0\u202f\u2009"
_LETTER = rf"[^\W{SPACELESS}]"
# Possessive throughout: a run of digits matches whole or not at all, so that no text makes this slow.
_RUN = re.compile(
    rf"""
    (?<!{_LETTER}) (?<!\d[{_SEPARATORS}])
    (?:
        (?P<date> \d{{4}}-\d\d-\d\d (?: [T ]\d\d:\d\d (?: :\d\d (?:\.\d++)?+ )?+ )?+
                | \d{{1,2}}/\d{{1,2}}/\d{{2,4}} | \d{{1,2}}:\d\d:\d\d )
      | (?P<sign> [-+\u2212] [$\u20ac\u00a3\u00a5]?+ )?+
        (?P<body> \d++ (?: [{_SEPARATORS}] \d++ )*+ | \.\d++ )
        (?P<power> [eE][-+]?+\d{{1,4}}+ )?+
        (?P<percent> [ \u00a0]?+% )?+
    )
    (?!{_LETTER})
    """,
    re.VERBOSE,
)
_PLAIN = re.compile(r"\d*\.\d+|\d+")
_GROUPED = re.compile(r"\d{1,3}(?:([,'\u2019_\u00a0\u202f\u2009])\d{3})(?:\1\d{3})*(\.\d+)?")
_CONTINENTAL = re.compile(r"\d{1,3}(?:([.'\u2019\u00a0\u202f\u2009])\d{3})(?:\1\d{3})*,\d+|\d{1,3}(?:\.\d{3}){2,}")
_PADDED = re.compile(r"[-+]?0\d")


def numbers_in(text: str) -> list[tuple[Number, int, int]]:
    """Return every number in a text with its place. One run can be read as more than one number."""
    found: list[tuple[Number, int, int]] = []
    for match in _RUN.finditer(text):
        if match["date"] is not None:
            continue
        negative = (match["sign"] or "")[:1] in ("-", "\u2212")
        for value, start, end in _read_run(match["body"], match["power"] or ""):
            whole = start == 0
            value = -value if negative and whole else value
            begin = match.start() if whole else match.start("body") + start
            stop = match.end() if end == len(match["body"]) else match.start("body") + end
            found.append((value, begin, stop))
            if match["percent"] and stop == match.end():
                found.append((value / 100, begin, stop))
    return found


def _read_run(body: str, power: str) -> list[tuple[Number, int, int]]:
    if _PLAIN.fullmatch(body):
        return _number(body + power, len(body))
    if len(body) <= _MAX_NUMBER_CHARS and not power:
        if _GROUPED.fullmatch(body):
            return _number(re.sub(rf"[{_SEPARATORS[1:]}]", "", body), len(body))
        if _CONTINENTAL.fullmatch(body):
            return _number(re.sub(r"[^\d,]", "", body).replace(",", "."), len(body))
    if "," not in body:
        return []
    parts = body.split(",")
    starts = accumulate((len(part) + 1 for part in parts), initial=0)
    found = [
        (value, start, start + length)
        for part, start in zip(parts, starts, strict=False)
        if _PLAIN.fullmatch(part)
        for value, _, length in _number(part, len(part))
    ]
    if len(parts) == 2 and "." not in body:
        found += _number(".".join(parts) + power, len(body))
    return found


def _number(digits: str, length: int) -> list[tuple[Number, int, int]]:
    if len(digits) > _MAX_NUMBER_CHARS:
        return []
    value: Number = int(digits) if digits.isdecimal() else float(digits)
    return [(value, 0, length)] if math.isfinite(value) else []


def as_number(text: str) -> Number | None:
    """Return the number that a text is, or None. `007` is none: its zeros mean something."""
    text = text.strip()
    if not text or len(text) > _MAX_NUMBER_CHARS or _PADDED.match(text) or text.endswith("%"):
        return None
    found = [value for value, start, end in numbers_in(text) if (start, end) == (0, len(text))]
    return found[0] if len(found) == 1 else None


def tolerance(value: Number) -> float:
    """Return by how much another number may differ: 0 for whole numbers, else a millionth or the rounding error.

    3.14 matches 3.14159, as after `round(x, 2)`; a number of one or two digits matches no longer one.
    """
    if isinstance(value, int) or not math.isfinite(value) or value.is_integer():
        return 0.0
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    rounding = 0.5000001 * 10.0 ** int(exponent) if len(digits) >= 3 else 0.0
    return max(abs(value) * 1e-6, rounding)


def same_number(value: Number, other: Number) -> bool:
    """Return whether `other` is `value`, within the tolerance of `value`."""
    try:
        return value == other or abs(float(other) - value) <= tolerance(value) > 0
    except OverflowError:
        return False


class Numbers:
    """Numbers with their places, to be looked up by value."""

    def __init__(self, numbers: list[tuple[Number, Any]]) -> None:
        self._exact: dict[Number, Any] = {}
        near: list[tuple[float, int]] = []
        for index, (number, _) in enumerate(numbers):
            if number == number:  # not NaN
                self._exact.setdefault(number, numbers[index][1])
                if abs(number) < 1e300:
                    near.append((float(number), index))
        self._near = sorted(near)
        self._places = numbers

    def find(self, value: Number) -> Any:
        """Return the place of the first such number, or None."""
        if value in self._exact:
            return self._exact[value]
        margin = tolerance(value)
        at = bisect.bisect_left(self._near, (value - margin, -1)) if margin else len(self._near)
        if at < len(self._near) and self._near[at][0] <= value + margin:
            return self._places[self._near[at][1]][1]
        return None


Span = tuple[int, int]

_MAX_CHARS = 200_000  # of a text that are read: half from its beginning, half from its end
_MAX_COMPARED = 2_000_000  # characters compared for one string before its search ends
_is_spaceless = re.compile(f"[{SPACELESS}]").match


def normal(text: str) -> str:
    """Return a string in the form that is compared: NFKC, casefolded, with single spaces."""
    return " ".join(_normal_word(word) for word in text.split())


def _normal_word(word: str) -> str:
    return (
        word.lower()
        if word.isascii()
        else unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    )


def is_distinctive(value: object) -> bool:
    """Return whether finding a value means something: not for booleans, null, empty values and punctuation."""
    if isinstance(value, str):
        return any(char.isalnum() for char in value)
    return value is not None and not isinstance(value, bool | dict | list | tuple | set | frozenset)


class Text:
    """A text in which many values are searched for."""

    def __init__(self, text: str) -> None:
        half = _MAX_CHARS // 2
        pieces = [(0, text)] if len(text) <= _MAX_CHARS else [(0, text[:half]), (len(text) - half, text[-half:])]
        self._pieces = [_Piece(piece, offset) for offset, piece in pieces]

    def find(self, value: object) -> Span | None:
        """Return the place of a value in the text, or None."""
        for needle in needles(value):
            for piece in self._pieces:
                span = piece.find_text(needle) if isinstance(needle, str) else piece.find_number(needle)
                if span is not None:
                    return span
        return None


def needles(value: object) -> list[str | Number]:
    """Return what to search for: a number, or the ways to write another value."""
    if isinstance(value, bool) or not is_distinctive(value):
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, Decimal):
        return [int(value) if value == value.to_integral_value() else float(value)] if value.is_finite() else []
    if isinstance(value, datetime.datetime):
        return [value.isoformat(), value.isoformat(" "), repr(value)]
    if isinstance(value, datetime.date):
        return [value.isoformat(), repr(value), f"{value.isoformat()}T00:00:00"]
    number = as_number(value) if isinstance(value, str) else None
    return [str(value)] if number is None else [number]


class _Piece:
    """A piece of a text: its numbers, and its words in normal form with their places."""

    def __init__(self, text: str, offset: int) -> None:
        self._text, self._offset = text, offset
        self._numbers: Numbers | None = None
        self._normal: str | None = None

    def find_number(self, value: Number) -> Span | None:
        if self._numbers is None:
            self._numbers = Numbers([(number, (start, end)) for number, start, end in numbers_in(self._text)])
        span = self._numbers.find(value)
        return None if span is None else (span[0] + self._offset, span[1] + self._offset)

    def find_text(self, string: str) -> Span | None:
        if self._normal is None:
            self._words = [match.span() for match in re.finditer(r"\S+", self._text)]
            shapes = [_normal_word(self._text[start:end]) for start, end in self._words]
            self._starts = list(accumulate((len(shape) + 1 for shape in shapes), initial=0))
            self._normal = " ".join(shapes)
        needle = normal(string)
        if not needle:
            return None
        at = self._normal.find(needle)
        for _ in range(max(10, _MAX_COMPARED // (len(needle) + 1))):
            if at < 0:
                return None
            if _at_boundaries(self._normal, at, at + len(needle)):
                return self._place(at, True) + self._offset, self._place(at + len(needle) - 1, False) + self._offset
            at = self._normal.find(needle, at + 1)
        return None

    def _place(self, at: int, beginning: bool) -> int:
        """Return the place in the text for one in the normal form; an edge of the word if its length has changed."""
        index = bisect.bisect_right(self._starts, at) - 1
        start, end = self._words[index]
        if self._starts[index + 1] - self._starts[index] - 1 == end - start:
            return start + at - self._starts[index] + (not beginning)
        return start if beginning else end


def _at_boundaries(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text begins and ends at boundaries of words or numbers."""
    return not (
        (start > 0 and _joined(text[start - 1], text[start], end - start))
        or (end < len(text) and _joined(text[end - 1], text[end], end - start))
        or (text[start].isdigit() and text[start - 1 : start] in (".", ",") and text[max(0, start - 2)].isdigit())
        or (text[end - 1].isdigit() and text[end : end + 1] in (".", ",") and text[end + 1 : end + 2].isdigit())
    )


def _joined(left: str, right: str, length: int) -> bool:
    if not (_in_word(left) and _in_word(right)):
        return False
    # A single character of a script without spaces is part of many words.
    return length == 1 or not (_is_spaceless(left) or _is_spaceless(right))


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char).startswith("M")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value and its path in the whole."""

    path: Path
    value: Any


def leaves_of(value: Any, path: Path) -> Iterator[Leaf]:
    """Yield the single values in a value. The keys of a dict are data as well; the fields of a model are not."""
    if isinstance(value, enum.Enum):
        yield Leaf(path, value.value)
    elif isinstance(value, BaseModel):
        for name, item in value:
            yield from leaves_of(item, (*path, name))
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield Leaf((*path, str(key)), key)
            yield from leaves_of(item, (*path, str(key)))
    elif isinstance(value, list | tuple | set | frozenset) and value:
        for index, item in enumerate(value):
            yield from leaves_of(item, (*path, index))
    else:
        yield Leaf(path, value)


def spread(items: list[T], limit: int) -> list[T]:
    """Return at most `limit` of the items, spread evenly."""
    step = len(items) / limit
    return items if step <= 1 else [items[int(index * step)] for index in range(limit)]


def same(value: Any, other: Any) -> bool:
    """Return whether two plain values are the same: numbers with a tolerance, strings in normal form."""
    if isinstance(value, bool | None) or isinstance(other, bool | None):
        return value is other
    if isinstance(value, int | float) and isinstance(other, int | float):
        return same_number(value, other)
    if isinstance(value, str) and isinstance(other, str):
        return value == other or (len(other) < 4 * len(value) + 100 and normal(value) == normal(other))
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(item, other[key]) for key, item in value.items())
    return False
