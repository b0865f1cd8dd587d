"""JSON schemas of tools as Python reads: short annotations. The schemas are a server's, and hostile: all is bounded."""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from typing import Any

from ..text import clean, shorten

MAX_SCHEMA_CHARS = 64_000
"""A larger schema is not read."""

_MAX_DEPTH = 4
_MAX_CHOICES = 12
_MAX_TYPE = 160
_MAX_PARAMETERS = 60
_MAX_DEFAULT = 60
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def is_readable(schema: Any) -> bool:
    """Return whether a schema is an object, and small enough to be read."""
    if not isinstance(schema, Mapping):
        return False
    try:
        return len(json.dumps(schema)) <= MAX_SCHEMA_CHARS
    except (ValueError, TypeError, RecursionError):
        return False


def annotation(schema: Any, root: Any, depth: int = _MAX_DEPTH) -> str:
    """Return the Python type of a schema, of a deep or odd one `Any`."""
    text = _annotation(schema, root, depth)
    return text if len(text) <= _MAX_TYPE else "Any"


def _annotation(schema: Any, root: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth <= 0:
        return "Any"
    if isinstance(reference := schema.get("$ref"), str):
        return annotation(_target(reference, root), root, depth - 1)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and choices:
        return _literal(choices)
    kind = schema.get("type")
    variants = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(kind, list):
        variants = [{**schema, "type": name} for name in kind[:_MAX_CHOICES]]
    if isinstance(variants, list) and variants:
        names = [annotation(variant, root, depth - 1) for variant in variants[:_MAX_CHOICES]]
        return "Any" if "Any" in names else " | ".join(dict.fromkeys(names))
    if kind == "array":
        return f"list[{annotation(schema.get('items'), root, depth - 1)}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {annotation(values, root, depth - 1)}]" if isinstance(values, Mapping) else "dict[str, Any]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _literal(choices: list[Any]) -> str:
    plain = [choice for choice in choices if choice is None or isinstance(choice, str | int | float | bool)]
    if len(plain) != len(choices) or len(choices) > _MAX_CHOICES:
        kinds = dict.fromkeys(type(choice).__name__ for choice in choices[:1_000])
        return "str" if list(kinds) == ["str"] else "Any"
    return f"Literal[{', '.join(_value(choice) for choice in choices)}]"


def _value(value: Any) -> str:
    """Return a plain value as Python writes it, on one line and without control characters."""
    return shorten(clean(repr(value)), _MAX_DEFAULT)


def _target(reference: str, root: Any) -> Any:
    node = root
    for step in reference.split("/")[1:20] if reference.startswith("#/") else ["?"]:
        if not isinstance(node, Mapping):
            return None
        node = node.get(step.replace("~1", "/").replace("~0", "~"))
    return node


def properties_of(schema: Mapping[str, Any]) -> dict[str, tuple[Any, bool]]:
    """Return the parameters of a tool: schema, and whether it is required. Those that are required come first."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return {}
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    listed = sorted(properties, key=lambda name: name not in names)[:_MAX_PARAMETERS]
    return {name: (properties[name], name in names) for name in listed}


def is_parameter(name: str) -> bool:
    """Return whether a property can be written as a keyword of a call."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and len(name) <= 60


def signature(schema: Any, output_schema: Any) -> str:
    """Return the signature of a tool as text: `(zone: str, *, limit: int = 10) -> dict[str, Any]`."""
    returned = annotation(output_schema, output_schema) if is_readable(output_schema) else "Any"
    if not is_readable(schema):
        return f"(**arguments) -> {returned}"
    parts = []
    odd = False
    for name, (part, required) in properties_of(schema).items():
        if not is_parameter(name):
            odd = True
            continue
        default = part.get("default", ...) if isinstance(part, Mapping) else ...
        given = "" if required else " = ..." if default is ... else f" = {_value(default)}"
        parts.append(f"{name}: {annotation(part, schema)}{given}")
    return f"({', '.join([*parts, *(['**arguments'] if odd else [])])}) -> {returned}"
