"""The stored form of a run's inputs: type, size and value of each, from which the same values can be restored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import RlmError
from ..redaction import MARK, Redactor
from .encoding import SHORT, FetchBlob, StoreBlob, encode_bytes, encode_text, resolve

_REPR_CHARS = 10_000


class InputNotRecorded(RlmError):
    """An input has a type that cannot be stored; the trace has only a description of it."""


def encode_inputs(inputs: Mapping[str, Any], redactor: Redactor, store: StoreBlob) -> dict[str, Any]:
    """Return type, size and value of each input by name; long values are references."""
    return {redactor.text(str(name)): _encode(value, redactor, store) for name, value in inputs.items()}


def restore_input(name: str, stored: Mapping[str, Any], fetch: FetchBlob) -> Any:
    """Return the value of an input. Raises `InputNotRecorded` if it was not text, bytes or JSON."""
    value = resolve(stored["value"], fetch)
    match stored["kind"]:
        case "json":
            return json.loads(value)
        case "repr":
            raise InputNotRecorded(
                f"input {name!r} ({stored['type']}) was not text, bytes or JSON, and is not in the trace"
            )
        case _:
            return value


def _encode(value: Any, redactor: Redactor, store: StoreBlob) -> dict[str, Any]:
    about: dict[str, Any] = {"type": type(value).__name__}
    value = _unwrap(value)
    if isinstance(value, str):
        clean = redactor.input(value)
        encoded = encode_text(clean, store)
        return {**about, "kind": "text", "size": len(value), "value": encoded, **_note(clean is not value)}
    if isinstance(value, bytes | bytearray | memoryview):
        original = bytes(value)
        data = redactor.data(original)
        encoded = encode_bytes(data, store)
        return {**about, "kind": "bytes", "size": len(data), "value": encoded, **_note(data is not original)}
    size = {"size": len(value)} if hasattr(value, "__len__") else {}
    try:
        text, kind = _to_json(value), "json"
    except (TypeError, ValueError, RecursionError):
        text, kind = _to_repr(value), "repr"
    clean = redactor.input(text)
    return {**about, "kind": kind, **size, "value": encode_text(clean, store), **_note(clean is not text)}


def _note(redacted: bool) -> dict[str, Any]:
    """Return a note for an input that contained a secret: a resumed run gets the text without it."""
    return {"note": f"a secret in it was replaced by {MARK}"} if redacted else {}


def _unwrap(value: Any) -> Any:
    """Read the sandbox's own wrappers of large inputs."""
    if type(value).__module__ == "sandbox.data" and hasattr(value, "read"):
        data = value.read()
        return data.decode("utf-8", "surrogatepass") if type(value).__name__ == "Text" else data
    return value


def _to_json(value: Any) -> str:
    """Serialize long lists and dictionaries item by item: one long call would block every other thread."""
    if type(value) is list and len(value) > SHORT:
        return "[" + ",".join([json.dumps(item) for item in value]) + "]"
    if type(value) is dict and len(value) > SHORT and all(type(name) is str for name in value):
        return "{" + ",".join([f"{json.dumps(name)}:{json.dumps(item)}" for name, item in value.items()]) + "}"
    return json.dumps(value)


def _to_repr(value: Any) -> str:
    try:
        return repr(value)[:_REPR_CHARS]
    except Exception as error:
        return f"<{type(value).__name__}; its repr failed: {type(error).__name__}>"
