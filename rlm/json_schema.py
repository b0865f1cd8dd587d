"""Changes to JSON schemas: closing them, making them strict for servers and grammars, bounding what fits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties"})
_DEFINITIONS = ("$defs", "definitions")

# They say nothing about what may be written, or servers refuse them. Answers are checked against all of it anyway.
_NOT_STRICT = frozenset({"default", "title", "examples", "discriminator", "uniqueItems", "$schema"})

_NAMING = ("$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef")
_MOST_ITEMS, _LEAST_TEXT = 8, 12
_RECURSION = 3


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


def strict(schema: Any) -> Any:
    """Return the schema with all properties required, no others allowed, and in the plainest keywords."""
    return map_schemas(schema, _strict)


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:  # servers refuse anything next to a reference, except for definitions at the root
        return {key: part for key, part in schema.items() if key in ("$ref", *_DEFINITIONS)}
    plain = {key: part for key, part in schema.items() if key not in _NOT_STRICT}
    if "oneOf" in plain:
        plain["anyOf"] = plain.pop("oneOf")
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if "properties" in plain and "allOf" not in plain:
        plain["required"] = list(plain["properties"])
    return closed(plain)


def walk_size(schema: Any) -> int:
    """Return how many parts a walk through a schema visits that follows its references, of a recursion three levels.

    Code can write a small schema that no walk comes to the end of. Raises `ValueError` for references that are no plain
    pointers into the schema.
    """
    sizes: dict[int, int] = {}

    def whole(part: Any) -> int:
        if not isinstance(part, list | dict) or id(part) in sizes:
            return sizes.get(id(part), 1)
        sizes[id(part)] = 1  # where it refers to itself
        parts = part if isinstance(part, list) else part.values()
        size = 1 + sum(map(whole, parts)) + (whole(_target(part, schema)) if _refers(part) else 0)
        sizes[id(part)] = size
        return size

    levels: dict[tuple[int, int], int] = {}

    def unrolled(part: Any, depth: int) -> int:
        key = (id(part), depth)
        if not isinstance(part, list | dict) or key in levels:
            return levels.get(key, 1)
        levels[key] = 1
        parts = part if isinstance(part, list) else part.values()
        size = 1 + sum(unrolled(inner, depth) for inner in parts)
        if depth and _refers(part):
            size += unrolled(_target(part, schema), depth - 1)
        levels[key] = size
        return size

    return max(whole(schema), unrolled(schema, _RECURSION))


def _refers(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("$ref"), str)


def _target(part: Any, root: Any) -> Any:
    """Return what the reference of a part points to."""
    reference = part["$ref"]
    if reference != "#" and not reference.startswith("#/"):
        raise ValueError(f"the reference {reference!r:.100} does not point into the schema")
    node = root
    for step in reference.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, list | dict):
            raise ValueError(f"the reference {reference!r:.100} points to nothing")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"the reference {reference!r:.100} points to nothing") from None
    return node


def has_own_names(schema: Any) -> bool:
    """Return whether a part of the schema has a name or a base of its own, by which others may refer to it."""
    remaining = [schema]
    while remaining:
        part = remaining.pop()
        if isinstance(part, list):
            remaining += part
        elif isinstance(part, dict):
            if part is not schema and isinstance(part.get("$id"), str):
                return True
            if any(isinstance(part.get(key), str) for key in _NAMING):
                return True
            remaining += part.values()
    return False


def is_object(schema: Mapping[str, Any]) -> bool:
    """Return whether the values of a schema are objects, as far as its root says."""
    return schema.get("type") == "object"


def is_open(schema: Any) -> bool:
    """Return whether an object in the schema has names that are not listed, which a strict schema cannot express."""
    if isinstance(schema, list):
        return any(map(is_open, schema))
    if not isinstance(schema, Mapping):
        return False
    if is_object(schema) and schema.get("additionalProperties", True) is not False:
        return True
    return any(is_open(part) for part in schema.values())


def wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with one property, `answer`, which fits the given schema."""
    inner = {key: part for key, part in schema.items() if key not in _DEFINITIONS}
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    return _strict({"type": "object", "properties": {"answer": inner}}) | definitions


def bounded(schema: Any, room: int) -> Any:
    """Return the schema with lists and texts so short that a value has about `room` characters."""
    if not isinstance(schema, Mapping):
        return schema
    short = dict(schema)
    for key in _DEFINITIONS:
        if key in short:
            short[key] = {name: bounded(part, room // 4) for name, part in short[key].items()}
    if "anyOf" in short:
        short["anyOf"] = [bounded(part, room) for part in short["anyOf"]]
    match short.get("type"):
        case "object" if short.get("properties"):
            each = room // len(short["properties"])
            short["properties"] = {name: bounded(part, each) for name, part in short["properties"].items()}
        case "array":
            most = max(short.get("minItems", 0), min(short.get("maxItems", _MOST_ITEMS), _MOST_ITEMS))
            short |= {"maxItems": most, "items": bounded(short.get("items", True), room // max(most, 1))}
        case "string" if not short.keys() & {"enum", "pattern", "format"}:
            most = max(short.get("minLength", 0), room, _LEAST_TEXT)
            short["maxLength"] = min(short.get("maxLength", most), most)
    return short
