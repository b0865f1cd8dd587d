"""Coercion of submitted values that JSON has no form for, into a form that the schema accepts."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from ..extraction.schema import Schema
from ..json_values import Path, pointer, replaced

_MAX_PARTS = 100_000


def coerce(values: Any, types: Mapping[str, str], schema: Schema) -> Any:
    """Replace values that the schema refuses by a form that it accepts: NaN by null, a midnight by a date.

    `types` says what values were, by JSON pointer. What has no place stays as it is, for the error to name.
    """
    replacements = dict(_replacements(values, types))
    if not replacements:
        return values
    refused = {problem.path for problem in schema.problems(values)}
    replacements = {path: other for path, other in replacements.items() if pointer(path) in refused}
    if not replacements:
        return values
    still = {problem.path for problem in schema.problems(replaced(values, replacements))}
    return replaced(values, {path: other for path, other in replacements.items() if pointer(path) not in still})


def _replacements(values: Any, types: Mapping[str, str]) -> Iterator[tuple[Path, Any]]:
    """Yield replacements of values by their paths."""
    todo: list[tuple[Path, Any]] = [((), values)]
    for _ in range(_MAX_PARTS):
        if not todo:
            return
        path, value = todo.pop()
        if isinstance(value, dict):
            todo += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            todo += [((*path, index), inner) for index, inner in enumerate(value)]
        elif isinstance(value, float) and math.isnan(value):
            yield path, None
        if types and (read := _READERS.get(types.get(pointer(path), ""))) is not None:
            try:
                yield path, read(value)
            except (AttributeError, KeyError, OverflowError, StopIteration, TypeError, ValueError):
                continue  # another class of that name, or a value that cannot be read


def _duration(seconds: Any) -> Any:
    return to_jsonable_python(datetime.timedelta(seconds=seconds))


def _day(moment: Any) -> Any:
    day, _, clock = moment.partition("T")
    if clock != "00:00:00":
        raise ValueError("a time of day would be lost")
    return day


def _rows(columns: Any) -> Any:
    index = next(iter(columns.values())).keys()
    return [{name: column[row] for name, column in columns.items()} for row in index]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "timedelta": _duration,
    "Decimal": float,
    "datetime": _day,
    "Timestamp": _day,
    "date": lambda day: f"{day}T00:00:00",
    "NaTType": lambda _: None,
    "Series": lambda items: list(items.values()),
    "DataFrame": _rows,
}
"""What a value of some type could be instead."""
