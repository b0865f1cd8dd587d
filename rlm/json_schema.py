"""Changes to JSON schemas, applied to a schema and to every schema inside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties"})


def map_schemas(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return the schema with `change` applied to each object schema in it, the inner ones first."""
    if not isinstance(schema, Mapping):
        return schema
    changed: dict[str, Any] = {}
    for key, part in schema.items():
        if key in _MAPS:
            part = {name: map_schemas(inner, change) for name, inner in part.items()}
        elif key in _LISTS:
            part = [map_schemas(inner, change) for inner in part]
        elif key in _SINGLE:
            part = map_schemas(part, change)
        changed[key] = part
    return change(changed)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Refuse further properties in an object that lists its own; parts of an `allOf` list only some, and stay open."""
    if "properties" in schema and "additionalProperties" not in schema and "allOf" not in schema:
        return {**schema, "additionalProperties": False}
    return schema
