"""The inputs of a run, on record: what they were, and the same values again for a run that goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..redaction import MARK, Scrubber
from .encoding import HEAD, SHORT, Put, filled, text_outline

_REPR_CHARS = 10_000


class NotKept(Exception):
    """An input was of a type that cannot be written down; only a description of it is on record."""


def outline_inputs(inputs: Mapping[str, Any], scrubber: Scrubber, put: Put) -> dict[str, Any]:
    """Each input by its name: its type, its size, and its value or a reference to it."""
    return {scrubber.text(str(name)): _outline(value, scrubber, put) for name, value in inputs.items()}


def restore_input(name: str, kept: Mapping[str, Any], body: Callable[[str], str | bytes]) -> Any:
    """The value of an input. Raises `NotKept` if it was not text, bytes or JSON."""
    value = filled(kept["value"], body)
    match kept["kind"]:
        case "json":
            return json.loads(value)
        case "repr":
            raise NotKept(f"input {name!r} ({kept['type']}) was not text, bytes or JSON, and is not on record")
        case _:
            return value


def _outline(value: Any, scrubber: Scrubber, put: Put) -> dict[str, Any]:
    about: dict[str, Any] = {"type": type(value).__name__}
    value = _opened(value)
    if isinstance(value, str):
        clean = scrubber.given(value)
        kept = text_outline(clean, put)
        return {**about, "kind": "text", "size": len(value), "value": kept, **_altered(clean is not value)}
    if isinstance(value, bytes | bytearray | memoryview):
        given = bytes(value)
        data = scrubber.data(given)
        reference = {"$body": put(data), "size": len(data), "head": repr(data[:HEAD])}
        return {**about, "kind": "bytes", "size": len(data), "value": reference, **_altered(data is not given)}
    size = {"size": len(value)} if hasattr(value, "__len__") else {}
    try:
        text, kind = _json(value), "json"
    except (TypeError, ValueError, RecursionError):
        text, kind = _repr(value), "repr"
    clean = scrubber.given(text)
    return {**about, "kind": kind, **size, "value": text_outline(clean, put), **_altered(clean is not text)}


def _altered(altered: bool) -> dict[str, Any]:
    """Said where a secret was replaced: a run that goes on from here gets the text without it."""
    return {"note": f"a secret in it was replaced by {MARK}"} if altered else {}


def _opened(value: Any) -> Any:
    """What is in the sandbox's own wrappers for large inputs."""
    if type(value).__module__ == "sandbox.data" and hasattr(value, "read"):
        data = value.read()
        return data.decode("utf-8", "surrogatepass") if type(value).__name__ == "Text" else data
    return value


def _json(value: Any) -> str:
    """JSON, item by item where there are many: one long call would hold up every other thread."""
    if type(value) is list and len(value) > SHORT:
        return "[" + ",".join([json.dumps(one) for one in value]) + "]"
    if type(value) is dict and len(value) > SHORT and all(type(name) is str for name in value):
        return "{" + ",".join([f"{json.dumps(name)}:{json.dumps(one)}" for name, one in value.items()]) + "}"
    return json.dumps(value)


def _repr(value: Any) -> str:
    try:
        return repr(value)[:_REPR_CHARS]
    except Exception as error:
        return f"<{type(value).__name__}; its repr failed: {type(error).__name__}>"
