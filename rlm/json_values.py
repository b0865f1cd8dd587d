"""Python values as JSON: types, paths, previews of bounded length, and what JSON cannot carry.

Nothing here but `dump` and `jsonable` runs the code of a value, recurses without a limit, or raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from .text import cut_middle

Path = tuple[str | int, ...]

MAX_DEPTH = 100
MAX_FOREIGN = 1_000
_MAX_NODES = 500_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
}


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def locate(value: Any, location: Iterable[str | int]) -> tuple[Path, Any]:
    """Follow a `loc` of pydantic and return the path and the value at its end.

    A `loc` also names the branches of unions, which the value does not have: they are skipped.
    """
    path: Path = ()
    for step in location:
        if isinstance(value, Mapping):
            found = step in value
        else:
            found = isinstance(value, list | tuple) and isinstance(step, int) and 0 <= step < len(value)
        if found:
            value, path = value[step], (*path, step)
    return path, value


def dump(value: Any) -> str:
    """Return a JSON value as text that can be encoded: characters as they are, lone surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return json.dumps(value, allow_nan=False) if _SURROGATE.search(text) else text


def jsonable(value: Any) -> Any:
    """Return a value of the caller's own as JSON carries it: also models, dataclasses, dates, sets, tables and arrays.

    Raise `TypeError` for what has no such form.
    """
    try:
        return to_jsonable_python(value, fallback=_of_arrays)
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from error


def _of_arrays(value: Any) -> Any:
    """Return a table of pandas as a list of its rows, and an array, a column or a number of numpy as plain values."""
    to_dict, to_list = getattr(value, "to_dict", None), getattr(value, "tolist", None)
    if callable(to_dict) and hasattr(value, "columns"):
        return to_dict(orient="records")
    if callable(to_list):
        return to_list()
    raise TypeError(f"a {type(value).__name__} is nothing that JSON can carry")


def type_of(value: Any) -> str:
    """Return the JSON type of a Python value; empty if JSON has none for it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for classes, name in ((int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, classes):
            return name
    return "array" if isinstance(value, list | tuple) else ""


def foreign(value: Any) -> str:
    """Return why JSON has no such value, leaving out what is inside of it; empty if it has."""
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return f"{name}, which is not JSON; use null or leave it out where the schema allows it"
    if isinstance(value, str):
        if _SURROGATE.search(value):
            return f"{preview(value)}, which has half of a character (a lone surrogate)"
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"an object with a key that is not a string: {preview(key, 60)}"
            if why := foreign(key):
                return f"an object with the key {why}"
    elif not type_of(value):
        return f"a Python value of type {type(value).__name__}, which is not JSON"
    return ""


def preview_typed(value: Any) -> str:
    """Return a bounded preview with the type: `"abc" (a string)`."""
    kind = type_of(value)
    if not kind:
        return f"a value of type {type(value).__name__}"
    if kind in ("null", "boolean"):
        return preview(value)
    size = f" of {len(value)}" if kind in ("array", "object") else ""
    return f"{preview(value)} ({_TYPES[kind]}{size})"


def preview(value: Any, limit: int = 160) -> str:
    """Return a value as JSON, cut in the middle; the work is bounded by `limit`, not by the size of the value."""
    return cut_middle("".join(_pieces(value, 2 * limit, 0)), limit, separator=" ")


def _pieces(value: Any, limit: int, depth: int) -> Iterable[str]:
    if isinstance(value, str):
        # Both ends: a long string is recognised by either.
        ends = value if len(value) <= limit else value[:limit] + value[-limit:]
        return [json.dumps(ends, ensure_ascii=False).encode(errors="replace").decode()]
    if isinstance(value, int) and value.bit_length() > 2_000:
        return [f"an integer of {value.bit_length()} bits"]
    if value is None or isinstance(value, bool | int | float):
        return [json.dumps(value) if type(value) in (bool, int, float, type(None)) else str(value)]
    if not isinstance(value, dict | list | tuple):
        return [f"<{type(value).__name__}>"]
    if depth > 6:
        return ["..."]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    pieces, used = [opening], 0
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for index, (key, item) in enumerate(pairs):
        if used > limit:
            pieces.append(f", ... {len(value) - index} more")
            break
        piece = "".join(_pieces(item, max(10, limit - used), depth + 1))
        if isinstance(value, dict):
            piece = f"{''.join(_pieces(key, 60, depth + 1))}: {piece}"
        used += len(piece)
        pieces.append((", " if index else "") + piece)
    return [*pieces, closing]


def not_json(value: Any) -> dict[Path, str]:
    """Return what in a value is not JSON, by path. The walk does not recurse, and ends on a value that does not."""
    found: dict[Path, str] = {}
    around: set[int] = set()  # the containers that the walk is inside of
    todo: list[tuple[Path, Any, bool]] = [((), value, False)]
    nodes = 0
    while todo:
        path, item, leaving = todo.pop()
        if leaving:
            around.discard(id(item))
            continue
        nodes += 1
        if nodes > _MAX_NODES:
            return {(): f"a value of more than {_MAX_NODES:,} parts"}
        if why := foreign(item):
            found[path] = why
        elif isinstance(item, dict | list | tuple) and item:
            if id(item) in around:
                found[path] = "a value that contains itself"
            elif len(path) >= MAX_DEPTH:
                found[path] = f"a value nested more than {MAX_DEPTH} levels deep"
            else:
                around.add(id(item))
                todo.append(((), item, True))
                pairs = list(item.items() if isinstance(item, dict) else enumerate(item))
                todo.extend(((*path, key), part, False) for key, part in reversed(pairs))
        if len(found) >= MAX_FOREIGN:
            return {(): f"a value with {MAX_FOREIGN:,} parts that are not JSON, or more"}
    return found


def replaced(value: Any, parts: Mapping[Path, Any], path: Path = ()) -> Any:
    """Return a copy with other values at the paths of `parts`."""
    if path in parts:
        return parts[path]
    if isinstance(value, dict):
        return {key: replaced(item, parts, (*path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(item, parts, (*path, index)) for index, item in enumerate(value)]
    return value


def at(value: Any, path: Path, default: Any) -> Any:
    """Return the part of a value at `path`, or the default where there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return default
    return value
