"""Numbers whose digits ran away: a model repeats a few digits until something stops it, and the number means nothing.

A model that is constrained to a number cannot stop with a word, so it is the one that does this. Constrained decoding
therefore bounds the digits, and the parsers of model output refuse such numbers.
"""

from __future__ import annotations

import re
from typing import Any

from .json_values import Path, pointer
from .signatures import Problem

MAX_DIGITS = 24
"""Digits before the point that constrained decoding allows. A number that has so many was cut off there."""

_LEAST_DIGITS, _LONGEST_PERIOD, _LEAST_TAIL = 18, 12, 12
_LEAST_ZEROS = 36  # people do write powers of ten
_LONG = re.compile(rf"[0-9]{{{_LEAST_DIGITS}}}")


def repeats(digits: str) -> bool:
    """Return whether at least half of a long row of digits is one group, repeated up to the end."""
    if len(digits) < _LEAST_DIGITS:
        return False
    for period in range(1, _LONGEST_PERIOD + 1):
        tail = period
        while tail < len(digits) and digits[-tail - 1] == digits[period - tail - 1]:
            tail += 1
        if tail >= max(_LEAST_TAIL, 4 * period, len(digits) / 2):
            return period > 1 or digits[-1] != "0" or tail >= _LEAST_ZEROS
    return False


def runaway_problems(value: Any, known: str = "") -> tuple[Problem, ...]:
    """Return a problem for each integer of a JSON value whose digits repeat up to the end, unless `known` has it."""
    found: list[Problem] = []
    remaining: list[tuple[Path, Any]] = [((), value)]
    while remaining:
        path, part = remaining.pop()
        if isinstance(part, dict):
            remaining += [((*path, name), inner) for name, inner in part.items()]
        elif isinstance(part, list | tuple):
            remaining += [((*path, index), inner) for index, inner in enumerate(part)]
        elif isinstance(part, int) and 10 ** (_LEAST_DIGITS - 1) <= abs(part) < 10**4000:
            digits = str(abs(part))
            if repeats(digits) and digits not in known:
                message = f"this number has {len(digits)} digits, which repeat up to its end; write the right number"
                found.append(Problem(pointer(path), message=message))
    return tuple(found)


def may_run_away(text: str) -> bool:
    """Return whether a text has a row of digits that is long enough to be looked at."""
    return _LONG.search(text) is not None


def to_float(text: str) -> float:
    """Return the number of a JSON literal. Raises `ValueError` if its digits before the point repeat up to there."""
    if repeats(text.lstrip("+-").partition(".")[0]):
        raise ValueError("the digits of a number repeat up to its end")
    return float(text)
