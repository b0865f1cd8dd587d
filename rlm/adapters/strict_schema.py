"""JSON schemas as servers and grammars take them: every field asked for, nothing added, the plainest keywords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..signatures.fields import Schema

# They say nothing about what may be written, or servers refuse them; the answer is checked against all of it anyway.
_DROPPED = frozenset({"default", "title", "examples", "discriminator", "uniqueItems", "$schema"})
_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_LISTS = frozenset({"anyOf", "allOf", "prefixItems"})


class Accepted(Schema):
    """Schemas of types for what is accepted: a set may be written with repeats, and is read as a set."""

    def set_schema(self, schema: Any) -> dict[str, Any]:
        """A list."""
        return {key: part for key, part in super().set_schema(schema).items() if key != "uniqueItems"}

    def frozenset_schema(self, schema: Any) -> dict[str, Any]:
        """A list."""
        return {key: part for key, part in super().frozenset_schema(schema).items() if key != "uniqueItems"}


class Strict(Schema):
    """Schemas of types for models that are held to them: a `Decimal` is a number there, and not any text as well."""

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """The number alone."""
        made: dict[str, Any] = super().decimal_schema(schema)
        number: dict[str, Any] = made["anyOf"][0]
        return number


def closed(schema: Any) -> Any:
    """The schema with all properties required, no others allowed, and without what only describes or defaults."""
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:  # servers refuse anything next to a reference, except at the root
        return {key: _inner(key, part) for key, part in schema.items() if key in ("$ref", "$defs", "definitions")}
    made = {key: _inner(key, part) for key, part in schema.items() if key not in _DROPPED}
    if "oneOf" in made:
        made["anyOf"] = [closed(part) for part in made.pop("oneOf")]
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if "properties" in made and "allOf" not in made:
        made["required"] = list(made["properties"])
        made.setdefault("additionalProperties", False)
    return made


def _inner(key: str, part: Any) -> Any:
    if key in _MAPS:
        return {name: closed(one) for name, one in part.items()}
    if key in _LISTS:
        return [closed(one) for one in part]
    return closed(part) if key in ("items", "additionalProperties") else part


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether the schema's values are objects, seen from its root."""
    return schema.get("type") == "object"


def is_open(schema: Any) -> bool:
    """Whether some object in it has names that are not known beforehand: what a strict schema cannot say."""
    if isinstance(schema, list):
        return any(map(is_open, schema))
    if not isinstance(schema, Mapping):
        return False
    if schema.get("type") == "object" and schema.get("additionalProperties", True) is not False:
        return True
    return any(is_open(part) for part in schema.values())


def wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the schema as its only field, `answer`."""
    inner = {key: part for key, part in schema.items() if key not in ("$defs", "definitions")}
    made: dict[str, Any] = {"type": "object", "properties": {"answer": inner}, "required": ["answer"]}
    made["additionalProperties"] = False
    return {**made, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}
