"""JSON schemas whose numbers come to an end.

A small model that is held to a number may write zeros until its limit, and the answer is lost. JSON Schema cannot say
how many digits a number may have, so the way down to one is written as a Lark grammar; all else stays a schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_INTEGER = "/-?(0|[1-9][0-9]{0,23})/"
_NUMBER = r"/-?(0|[1-9][0-9]{0,23})(\.[0-9]{1,23})?([eE][+-]?[0-9]{1,3})?/"
_KNOWN = {
    "object": frozenset({"type", "properties", "required", "additionalProperties"}),
    "array": frozenset({"type", "items", "minItems", "maxItems"}),
    "number": frozenset({"type"}),
    "integer": frozenset({"type"}),
}
_WORDS = frozenset({"title", "description", "default", "examples", "$defs", "definitions"})  # they forbid nothing


def lark_of_schema(schema: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    """The schema as a Lark grammar. `form` is llguidance's: how JSON is written."""
    writer = _Writer(schema, form)
    try:
        start = writer.expression(schema)
    except _Beyond:
        start, writer.rules = writer.plain(schema), {}
    return "\n".join([f"start: {start}", *(f"{name}: {rule}" for name, rule in writer.rules.items())])


class _Beyond(Exception):
    """A number is inside something that is not written out here."""


class _Writer:
    def __init__(self, schema: Mapping[str, Any], form: Mapping[str, Any]) -> None:
        self._places = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        self._form = form
        self._names: dict[str, str] = {}
        self.rules: dict[str, str] = {}

    def plain(self, schema: Any) -> str:
        """A schema, for llguidance to see to."""
        whole = {**schema, **self._places, "x-guidance": self._form} if isinstance(schema, Mapping) else schema
        return f"%json {json.dumps(whole, ensure_ascii=False)}"

    def expression(self, schema: Any) -> str:
        """What a value of the schema looks like."""
        if not self._has_number(schema, frozenset()):
            return self.plain(schema)
        kind, keys = schema.get("type"), schema.keys() - _WORDS
        if "$ref" in schema and len(keys) == 1:
            return self._named(schema["$ref"])
        if "anyOf" in schema and len(keys) == 1:
            return f"({' | '.join(self.expression(part) for part in schema['anyOf'])})"
        if kind in ("number", "integer") and keys != {"type"}:  # bounds are llguidance's to keep
            return self.plain(schema)
        if kind not in _KNOWN or not keys <= _KNOWN[kind]:
            raise _Beyond
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._array(schema)
        return _INTEGER if kind == "integer" else _NUMBER

    def _object(self, schema: Mapping[str, Any]) -> str:
        fields = schema.get("properties", {})
        if set(schema.get("required", ())) != set(fields) or schema.get("additionalProperties") is not False:
            raise _Beyond
        between = self._form["item_separator"]
        parts: list[str] = []
        for name, field in fields.items():
            begin = "{" if not parts else between
            parts += [_text(begin + json.dumps(name, ensure_ascii=False) + self._form["key_separator"])]
            parts += [self.expression(field)]
        return f"({' '.join(parts)} {_text('}')})"

    def _array(self, schema: Mapping[str, Any]) -> str:
        item, least, most = self.expression(schema["items"]), schema.get("minItems", 0), schema.get("maxItems")
        between = _text(self._form["item_separator"])
        if most == 0:
            return _text("[]")
        more = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        items = f"{item} ({between} {item}){more}"
        return f"({_text('[')} {f'({items})?' if least == 0 else items} {_text(']')})"

    def _named(self, reference: str) -> str:
        """The rule of what is defined by name; there it may refer to itself."""
        if reference not in self._names:
            name = self._names[reference] = f"ref{len(self._names)}"
            self.rules[name] = self.expression(self._found(reference))
        return self._names[reference]

    def _found(self, reference: str) -> Any:
        place, _, name = reference.removeprefix("#/").partition("/")
        try:
            return self._places[place][name]
        except KeyError:
            raise _Beyond from None

    def _has_number(self, schema: Any, seen: frozenset[str]) -> bool:
        """Whether some number in it may be endless."""
        if not isinstance(schema, Mapping):
            return False
        if "$ref" in schema:
            reference = schema["$ref"]
            return reference not in seen and self._has_number(self._found(reference), seen | {reference})
        if "enum" in schema or "const" in schema:
            return False
        kinds = schema.get("type")
        if kinds in ("number", "integer") or (isinstance(kinds, list) and {"number", "integer"} & set(kinds)):
            return True
        inner = [*schema.get("properties", {}).values(), *schema.get("prefixItems", ()), schema.get("items")]
        inner += [schema.get("additionalProperties"), *(part for key in _JOINED for part in schema.get(key, ()))]
        return any(self._has_number(part, seen) for part in inner)


_JOINED = ("anyOf", "oneOf", "allOf")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
