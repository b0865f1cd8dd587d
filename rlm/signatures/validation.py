"""Checking values against types, with every problem found at once: its place, what was expected and what came.

Values are read as JSON is: a date is a string, a model an object. Nothing is converted that would hide a mistake: `"5"`
is not an int and `1` is not a bool. A whole float is an int (JSON Schema says so, and `total / 2` makes them).
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python

from ..errors import RlmError
from ..json_values import MAX_DEPTH, Path, locate, pointer, preview, preview_typed
from .problems import Problem

T = TypeVar("T")

_ISO = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXACT = 2**53  # beyond this a float no longer says which whole number was meant


class InvalidValue(RlmError, ValueError):
    """Values that do not fit a signature, with all that is wrong with them."""

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([what, *(f"- {one}" for one in self.problems)]))


class InvalidInputs(InvalidValue):
    """Inputs that a run cannot start with."""


class InvalidOutputs(InvalidValue):
    """Outputs that a run cannot end with."""


def plain(value: Any, path: Path = ()) -> tuple[Any, list[Problem]]:
    """A value as JSON would carry it (models, dataclasses, dates and sets included), and what JSON cannot carry."""
    if len(path) > MAX_DEPTH:
        return None, [Problem(pointer(path[:5]), f"a value nested at most {MAX_DEPTH} deep", "one that goes on")]
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
        parts = [plain(one, (*path, index)) for index, one in enumerate(value)]
        return [part for part, _ in parts], [problem for _, found in parts for problem in found]
    try:
        made = to_jsonable_python(value, round_trip=True)
    except (PydanticSerializationError, ValueError, RecursionError):
        return None, [Problem(pointer(path), "a value that JSON can carry", preview_typed(value))]
    # What came of it is plain, but a NaN may still be inside, and a subclass of `str` is handed through as it is.
    return plain(str(made) if isinstance(made, str) else made, path)


def _plain_dict(value: dict[Any, Any], path: Path) -> tuple[dict[str, Any], list[Problem]]:
    problems: list[Problem] = []
    made: dict[str, Any] = {}
    for key, inner in value.items():
        name = key if type(key) is str else str(to_jsonable_python(key, fallback=str))
        made[name], found = plain(inner, (*path, name))
        problems += found
    return made, problems


def check(adapter: TypeAdapter[T], value: Any, path: Path = ()) -> tuple[T | None, list[Problem]]:
    """The typed value of a plain one, or everything that is wrong with it."""
    made: T | None
    made, faults = _read(adapter, value)
    problems = _problems(value, faults, path) if faults else _timestamps(made, value, path)
    return (None if problems else made), problems


def fits(adapter: TypeAdapter[Any], value: Any) -> bool:
    """Whether `check` would find nothing wrong with a plain value; sooner known, as nothing is put into words."""
    made, faults = _read(adapter, value)
    return not faults and not _timestamps(made, value, ())


def _read(adapter: TypeAdapter[Any], value: Any) -> tuple[Any, list[ErrorDetails]]:
    made, faults = _validate(adapter, value)
    mended = _whole_floats(value, faults) if faults else None
    return (made, faults) if mended is None else _validate(adapter, mended)


def _validate(adapter: TypeAdapter[Any], value: Any) -> tuple[Any, list[ErrorDetails]]:
    try:
        return adapter.validate_json(json.dumps(value), strict=True), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_context=False)


def _timestamps(made: Any, value: Any, path: Path) -> list[Problem]:
    """Dates that pydantic took from a number written as text: `"2020"` is not 33 minutes past midnight in 1970."""
    if isinstance(made, datetime.date) and isinstance(value, str):
        if _ISO.match(value):
            return []
        return [Problem(pointer(path), "a date and time in ISO 8601, YYYY-MM-DD first", preview_typed(value))]
    pairs: list[tuple[str | int, Any]] = []
    if isinstance(made, BaseModel):
        pairs = list(made)  # a model iterates over its fields
    elif isinstance(made, dict) and isinstance(value, dict) and len(made) == len(value):
        pairs = list(zip(value, made.values(), strict=True))
    elif isinstance(made, list | tuple):
        pairs = list(enumerate(made))
    found = []
    for step, inner in pairs:
        there = step in value if isinstance(value, dict) else isinstance(value, list)
        found += _timestamps(inner, value[step], (*path, step)) if there else []
    return found


def _problems(value: Any, faults: Sequence[ErrorDetails], path: Path) -> list[Problem]:
    """One problem for each place; what the branches of a union wanted is put together."""
    found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for fault in faults:
        where, got = _locate(value, fault)
        came = "nothing" if fault["type"] == "missing" else preview_typed(got)
        wanted, said = found.setdefault((pointer(path + where), came), ([], []))
        words = _expected(fault)
        if words is None:
            # A rule in words of its own, such as a validator's: "n is below ten".
            text = fault["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            said.append(f"{text} (got {came.rpartition(' (')[0] or came})")
        elif words not in wanted:
            wanted.append(words)
    return [_problem(where, came, *words) for (where, came), words in found.items()]


def _problem(where: str, came: str, wanted: list[str], said: list[str]) -> Problem:
    expected = " or ".join(wanted)
    if not said:
        return Problem(where, expected, came)
    return Problem(
        where, expected, came, "; or ".join([*dict.fromkeys(said), *([f"expected {expected}"] * bool(wanted))])
    )


def _expected(fault: ErrorDetails) -> str | None:
    """What was expected, as words that follow "expected"; None where the fault says it otherwise."""
    match fault["type"]:
        case "missing":
            return "a value"
        case "extra_forbidden":
            return "nothing (there is no such field)"
        case "needs_python_object":
            return "an instance of its class"
    words = fault["msg"].removeprefix("Input should be ")
    return words if words != fault["msg"] else None


def _locate(value: Any, fault: ErrorDetails) -> tuple[Path, Any]:
    path, found = locate(value, fault["loc"])
    return (*path, fault["loc"][-1]) if fault["type"] == "missing" else path, found


def _whole_floats(value: Any, faults: Sequence[ErrorDetails]) -> Any:
    """The value with ints where a whole float stood in an int's place; None where there is nothing to mend."""
    places = []
    for fault in faults:
        where, got = _locate(value, fault)
        if fault["type"] == "int_type" and isinstance(got, float) and got.is_integer() and abs(got) < _EXACT:
            places.append(where)
    if not places:
        return None
    made = json.loads(json.dumps(value))
    for where in places:
        if not where:
            return int(value)
        holder = made
        for step in where[:-1]:
            holder = holder[step]
        holder[where[-1]] = int(holder[where[-1]])
    return made
