"""Numbers in text, as people and programs write them.

`5` is not in `15`, `5.2`, `5kg`, `v5` or `2026-05-05`; it is in `$5.00`, `+5`, `5%`. A run of digits and separators is
read in the likely way: `1,234` is one number, `3,14` may be 3.14 or two numbers, `1.2.3` is none.

Not covered: numbers with a unit attached, plain spaces between thousands, Indian grouping, number words.
"""

from __future__ import annotations

import bisect
import math
import re
from decimal import Decimal
from itertools import accumulate
from typing import Any

Number = int | float

_MAX_CHARS = 400  # of one number
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
    if len(body) <= _MAX_CHARS and not power:
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
    if len(digits) > _MAX_CHARS:
        return []
    value: Number = int(digits) if digits.isdecimal() else float(digits)
    return [(value, 0, length)] if math.isfinite(value) else []


def as_number(text: str) -> Number | None:
    """Return the number that a text is, or None. `007` is none: its zeros mean something."""
    text = text.strip()
    if not text or len(text) > _MAX_CHARS or _PADDED.match(text) or text.endswith("%"):
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
