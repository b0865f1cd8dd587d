"""Events as they are kept: small JSON in which every long text is a reference to a body.

A reference is `{"$body": hash, "size": characters, "head": how it begins}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..redaction import Scrubber

SHORT = 256
"""Texts up to this many characters stay in the event."""

HEAD = 80

_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

Put = Callable[[str | bytes], str]


def outline(data: Mapping[str, Any], scrubber: Scrubber, put: Put) -> dict[str, Any]:
    """The data of an event with its long texts put away and its secrets replaced."""
    return {scrubber.name(str(name))[:SHORT]: _value(value, scrubber, put) for name, value in data.items()}


def to_json(data: Mapping[str, Any]) -> str:
    """An outline as JSON text: ASCII, so that lone surrogates are kept too."""
    return _ENCODE(data)


def is_reference(value: Any) -> bool:
    """Whether a value of an outline stands for a body."""
    return isinstance(value, dict) and "$body" in value


def filled(value: Any, body: Callable[[str], str | bytes]) -> Any:
    """An outline with every reference replaced by what it stands for."""
    if isinstance(value, list):
        return [filled(one, body) for one in value]
    if isinstance(value, dict):
        if "$body" in value:
            return body(value["$body"])
        if "$json" in value:
            return json.loads(filled(value["$json"], body))
        return {name: filled(one, body) for name, one in value.items()}
    return value


def text_outline(text: str, put: Put) -> Any:
    """A text without secrets: itself when it is short, else a reference."""
    if len(text) <= SHORT:
        return text
    return {"$body": put(text), "size": len(text), "head": text[:HEAD]}


def _value(value: Any, scrubber: Scrubber, put: Put) -> Any:
    kind = type(value)
    if kind is str:
        return text_outline(scrubber.text(value), put)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is dict:
        if any(isinstance(name, str) and name.startswith("$") for name in value):
            # It would read like a reference. What a model wrote must not be taken for one of ours.
            plain = json.dumps(_plain(value), ensure_ascii=False)
            return {"$json": text_outline(scrubber.text(plain), put)}
        return {scrubber.name(str(name))[:SHORT]: _value(one, scrubber, put) for name, one in value.items()}
    if kind is list or kind is tuple:
        return [_value(one, scrubber, put) for one in value]
    if kind is bytes:
        data = scrubber.data(value)
        return {"$body": put(data), "size": len(data), "head": repr(data[:HEAD])}
    return _value(_plain(value), scrubber, put)


def _plain(value: Any) -> Any:
    """Anything else as JSON knows it; as a last resort, what `repr` says."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=repr, inf_nan_mode="strings", bytes_mode="base64")
