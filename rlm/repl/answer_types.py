"""The types of answers that code asks for: choices, a type or its name, a JSON schema. They are hostile, so bounded."""

from __future__ import annotations

import json
from typing import Any

from .. import json_schema
from ..signatures import Signature, SignatureError

_MAX_TYPE_CHARS, _MAX_TYPE_NAME, _MAX_TYPE_PARTS = 50_000, 1_000, 60_000


def wanted_type(type: Any) -> Any:
    """Return the type of an answer, from what code can write: choices, a type or its name, a JSON schema."""
    if type is None or type == "str":
        return None
    if isinstance(type, str):
        if len(type) > _MAX_TYPE_NAME:
            raise TypeError(f"type={type[:60]!r}...: at most {_MAX_TYPE_NAME:,} characters")
        try:
            return Signature.of(f"question -> answer: {type}").outputs[0].type
        except SignatureError as error:
            raise TypeError(f"type={type!r} is no type: {error}") from None
    if isinstance(type, list | dict):
        from ..adapters.output_spec import target_of

        _check_type(type)
        target_of(type)  # raises if no value can be of that type
        return type
    raise TypeError(f"type={type!r:.80}: a list of choices, a type such as int, or a JSON schema")


def _check_type(type: Any) -> None:
    """Refuse a type that would keep the host busy: this comes from code, before anything is counted."""
    try:
        size = len(json.dumps(type))
        if size > _MAX_TYPE_CHARS:
            raise TypeError(f"type={type!r:.60}...: {size:,} characters; at most {_MAX_TYPE_CHARS:,} are read")
        if json_schema.has_own_names(type):
            raise TypeError(f"type={type!r:.60}...: only references such as #/$defs/name are followed")
        parts = json_schema.walk_size(type)
    except (ValueError, RecursionError) as error:
        raise TypeError(f"type={type!r:.60}...: {error}") from None
    if parts > _MAX_TYPE_PARTS:
        raise TypeError(
            f"type={type!r:.60}...: its references make {parts:.2g} parts of it; at most {_MAX_TYPE_PARTS:,}"
        )
