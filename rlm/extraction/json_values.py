"""Python values seen as JSON: their types, what in them JSON does not have, and previews of bounded length.

Nothing here runs the code of a value, recurses without a limit, or raises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..signatures.problems import Path
from .parsing.lenient_json import MAX_DEPTH

MAX_FOREIGN = 1_000
_MAX_NODES = 500_000
_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
}


def type_of(value: Any) -> str:
    """The JSON type of a Python value; empty if JSON has none for it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for classes, name in ((int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, classes):
            return name
    return "array" if isinstance(value, list | tuple) else ""


def foreign(value: Any) -> str:
    """Why JSON has no such value, or nothing if it has."""
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return f"{name}, which is not JSON; use null or leave it out where the schema allows it"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{preview(value)}, which holds half of a character (a lone surrogate)"
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
    """A bounded preview with the type: `"abc" (a string)`."""
    kind = type_of(value)
    if kind in ("null", "boolean"):
        return preview(value)
    size = f" of {len(value)}" if kind in ("array", "object") else ""
    return f"{preview(value)} ({_WORDS.get(kind, type(value).__name__)}{size})"


def preview(value: Any, limit: int = 120) -> str:
    """A value as JSON, cut in the middle; the work is bounded by `limit`, not by the size of the value."""
    return cut("".join(_pieces(value, 2 * limit, 0)), limit)


def _pieces(value: Any, limit: int, depth: int) -> Iterable[str]:
    if isinstance(value, str):
        # Keep both ends: a long string is recognised by either.
        kept = value if len(value) <= limit else value[:limit] + value[-limit:]
        return [json.dumps(kept, ensure_ascii=False).encode(errors="replace").decode()]
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


def cut(text: str, limit: int) -> str:
    """`text`, cut in the middle if it is longer than `limit`, with the count of what was left out."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]} ... ({len(text) - limit:,} characters left out) ... {text[len(text) - tail :]}"


def not_json(value: Any) -> dict[Path, str]:
    """What in `value` is not JSON, by path. Walks without recursion, and gives up on what has no end."""
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
        if words := foreign(item):
            found[path] = words
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


def without(value: Any, bad: Mapping[Path, str], path: Path = ()) -> Any:
    """A copy with null where something is not JSON, so that the rest can still be checked."""
    if path in bad:
        return None
    if isinstance(value, dict):
        return {key: without(part, bad, (*path, key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without(part, bad, (*path, index)) for index, part in enumerate(value)]
    return value


def at(value: Any, path: Path, otherwise: Any) -> Any:
    """The original at `path`; the validator's own copy has lost what kind of number it was."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return otherwise
    return value
