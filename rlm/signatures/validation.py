"""Validation of values against types: every problem at once, with its place, what was expected and what came.

Values are read as JSON: a date is a string, a model an object. No conversion hides a mistake: `"5"` is no int and `1`
no bool. A whole float is an int, as in JSON Schema, because `total / 2` makes them.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python

from ..errors import RlmError
from ..json_values import MAX_DEPTH, Path, locate, pointer, preview, preview_typed

T = TypeVar("T")

_ISO = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXACT = 2**53  # beyond this a float does not determine a whole number


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a value, in the same words for inputs, outputs, SUBMIT and the retry loop."""

    path: str
    """A JSON pointer into the value: `/people/0/age`; empty for the whole value."""

    expected: str = ""
    got: str = ""
    message: str = ""
    """What is wrong, if `expected` and `got` do not say it."""

    rule: Path = field(default=(), repr=False, compare=False)
    """The path of the violated rule in a JSON schema."""

    def __str__(self) -> str:
        place = f"At path '{self.path}'" if self.path else "At path '/' (the whole value)"
        return f"{place}: {self.message or f'expected {self.expected}, got {self.got}'}"


class InvalidValue(RlmError, ValueError):
    """Values that do not fit a signature; `problems` lists everything that is wrong."""

    def __init__(self, summary: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([summary, *(f"- {problem}" for problem in self.problems)]))


class InvalidInputs(InvalidValue):
    """A run cannot start with these inputs."""


class InvalidOutputs(InvalidValue):
    """A run cannot end with these outputs."""


def plain(value: Any, path: Path = ()) -> tuple[Any, list[Problem]]:
    """Return a value as JSON carries it (also models, dataclasses, dates, sets), and what of it JSON cannot carry."""
    if len(path) > MAX_DEPTH:
        return None, [Problem(pointer(path[:5]), f"a value nested at most {MAX_DEPTH} deep", "a deeper one")]
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value, []
    if kind is str:
        if _SURROGATE.search(value):
            return None, [Problem(pointer(path), "text without lone surrogates", preview(value))]
        return value, []
    if kind is float:
        if math.isfinite(value):
            return value, []
        return None, [Problem(pointer(path), "a finite number (JSON has no NaN or infinity)", str(value))]
    if kind is dict:
        return _plain_dict(value, path)
    if kind is list or kind is tuple:
        parts = [plain(item, (*path, index)) for index, item in enumerate(value)]
        return [part for part, _ in parts], [problem for _, found in parts for problem in found]
    try:
        converted = to_jsonable_python(value, round_trip=True)
    except (PydanticSerializationError, ValueError, RecursionError):
        return None, [Problem(pointer(path), "a value that JSON can carry", preview_typed(value))]
    # There may still be a NaN inside, and a subclass of `str` is returned as it is.
    return plain(str(converted) if isinstance(converted, str) else converted, path)


def _plain_dict(value: dict[Any, Any], path: Path) -> tuple[dict[str, Any], list[Problem]]:
    problems: list[Problem] = []
    plain_values: dict[str, Any] = {}
    for key, item in value.items():
        name = key if type(key) is str else str(to_jsonable_python(key, fallback=str))
        plain_values[name], found = plain(item, (*path, name))
        problems += found
    return plain_values, problems


def check(adapter: TypeAdapter[T], value: Any, path: Path = ()) -> tuple[T | None, list[Problem]]:
    """Return the typed value of a plain one, or None and everything that is wrong with it."""
    typed: T | None
    typed, faults = _read(adapter, value)
    problems = _problems(value, faults, path) if faults else _timestamps(typed, value, path)
    return (None if problems else typed), problems


def fits(adapter: TypeAdapter[Any], value: Any) -> bool:
    """Return whether `check` would find nothing wrong with a plain value; faster, because it writes no messages."""
    typed, faults = _read(adapter, value)
    return not faults and not _timestamps(typed, value, ())


def _read(adapter: TypeAdapter[Any], value: Any) -> tuple[Any, list[ErrorDetails]]:
    typed, faults = _validate(adapter, value)
    converted = _whole_floats(value, faults) if faults else None
    return (typed, faults) if converted is None else _validate(adapter, converted)


def _validate(adapter: TypeAdapter[Any], value: Any) -> tuple[Any, list[ErrorDetails]]:
    try:
        return adapter.validate_json(json.dumps(value), strict=True), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_context=False)


def _timestamps(typed: Any, value: Any, path: Path) -> list[Problem]:
    """Return a problem for each date that pydantic read from a number in text: `"2020"` is no second of 1970."""
    if isinstance(typed, datetime.date) and isinstance(value, str):
        if _ISO.match(value):
            return []
        return [Problem(pointer(path), "a date and time in ISO 8601, YYYY-MM-DD first", preview_typed(value))]
    pairs: list[tuple[str | int, Any]] = []
    if isinstance(typed, BaseModel):
        pairs = list(typed)  # a model iterates over its fields
    elif isinstance(typed, dict) and isinstance(value, dict) and len(typed) == len(value):
        pairs = list(zip(value, typed.values(), strict=True))
    elif isinstance(typed, list | tuple):
        pairs = list(enumerate(typed))
    problems = []
    for step, item in pairs:
        present = step in value if isinstance(value, dict) else isinstance(value, list)
        problems += _timestamps(item, value[step], (*path, step)) if present else []
    return problems


def _problems(value: Any, faults: Sequence[ErrorDetails], path: Path) -> list[Problem]:
    """Return one problem for each place; the expectations of the branches of a union are joined."""
    found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for fault in faults:
        place, part = _locate(value, fault)
        got = "nothing" if fault["type"] == "missing" else preview_typed(part)
        alternatives, messages = found.setdefault((pointer(path + place), got), ([], []))
        expected = _expected(fault)
        if expected is None:
            # A message of its own, such as a validator's: "n is below ten".
            text = fault["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            messages.append(f"{text} (got {got.rpartition(' (')[0] or got})")
        elif expected not in alternatives:
            alternatives.append(expected)
    return [_problem(place, got, *texts) for (place, got), texts in found.items()]


def _problem(place: str, got: str, alternatives: list[str], messages: list[str]) -> Problem:
    expected = " or ".join(alternatives)
    if not messages:
        return Problem(place, expected, got)
    unique = [*dict.fromkeys(messages), *([f"expected {expected}"] * bool(alternatives))]
    return Problem(place, expected, got, "; or ".join(unique))


def _expected(fault: ErrorDetails) -> str | None:
    """Return the text that follows "expected"; None if the message of the fault has another form."""
    match fault["type"]:
        case "missing":
            return "a value"
        case "extra_forbidden":
            return "nothing (there is no such field)"
        case "needs_python_object":
            return "an instance of its class"
    text = fault["msg"].removeprefix("Input should be ")
    return text if text != fault["msg"] else None


def _locate(value: Any, fault: ErrorDetails) -> tuple[Path, Any]:
    path, found = locate(value, fault["loc"])
    return (*path, fault["loc"][-1]) if fault["type"] == "missing" else path, found


def _whole_floats(value: Any, faults: Sequence[ErrorDetails]) -> Any:
    """Return the value with ints for whole floats where ints were expected; None if there are none."""
    places = []
    for fault in faults:
        place, part = _locate(value, fault)
        if fault["type"] == "int_type" and isinstance(part, float) and part.is_integer() and abs(part) < _EXACT:
            places.append(place)
    if not places:
        return None
    converted = json.loads(json.dumps(value))
    for place in places:
        if not place:
            return int(value)
        container = converted
        for step in place[:-1]:
            container = container[step]
        container[place[-1]] = int(container[place[-1]])
    return converted


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
