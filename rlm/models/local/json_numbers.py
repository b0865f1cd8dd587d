"""JSON schemas as grammars in which every number comes to an end.

A small model that is constrained to a number may write digits until its token limit, and the answer is lost. JSON
Schema cannot say how many digits a number may have, so the path to each number is written as a Lark grammar; everything
else stays a schema. Where a schema cannot be written so, its numbers get bounds instead.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...json_schema import map_schemas
from ...signatures.validation import MAX_DIGITS

_WHOLE = f"(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})"
_INTEGER = f"/-?{_WHOLE}/"
_NUMBER = rf"/-?{_WHOLE}(\.[0-9]{{1,23}})?([eE][+-]?[0-9]{{1,3}})?/"

# llguidance takes 64-bit bounds, and a `multipleOf` of nine places.
_INTEGER_DIGITS, _REAL_DIGITS, _STEP = 18, 15, 1e-9
_LARGE_INTEGER = f"[1-9][0-9]{{{_INTEGER_DIGITS},{MAX_DIGITS - 1}}}"
_LARGE_NUMBER = rf"[1-9][0-9]{{{_REAL_DIGITS},{MAX_DIGITS - 1}}}(\.[0-9]{{1,9}})?"

_KEYWORDS = {
    "object": frozenset({"type", "properties", "required", "additionalProperties", "patternProperties"}),
    "array": frozenset({"type", "items", "prefixItems", "minItems", "maxItems"}),
}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "discriminator", "$defs", "definitions"})
_NUMBERS = frozenset({"number", "integer"})


def lark_of_schema(schema: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    """Return a JSON schema as a Lark grammar. `form` is how JSON is written, in llguidance's options."""
    writer = _Writer(schema, form)
    try:
        start = writer.expression(schema)
    except _Unwritable:
        start, writer.rules = writer.json(map_schemas(schema, _with_bounds)), {}
    return "\n".join([f"start: {start}", *(f"{name}: {rule}" for name, rule in writer.rules.items())])


class _Unwritable(Exception):
    """A number is inside keywords that are not written as Lark here."""


class _Writer:
    def __init__(self, schema: Mapping[str, Any], form: Mapping[str, Any]) -> None:
        self._definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        self._form = form
        self._names: dict[str, str] = {}
        self.rules: dict[str, str] = {}

    def json(self, schema: Any) -> str:
        """Return a schema as it is, for llguidance to compile."""
        whole = {**self._definitions, **schema, "x-guidance": self._form} if isinstance(schema, Mapping) else schema
        return f"%json {json.dumps(whole, ensure_ascii=False)}"

    def expression(self, schema: Any) -> str:
        """Return the Lark expression for the values of a schema."""
        if not self._has_number(schema, frozenset()):
            return self.json(schema)
        kind, keywords = schema.get("type"), schema.keys() - _ANNOTATIONS
        if isinstance(kind, list):
            return self._either([{**schema, "type": each} for each in kind])
        if "$ref" in schema and len(keywords) == 1:
            return self._reference(schema["$ref"])
        if len(keywords) == 1 and keywords <= {"anyOf", "oneOf"}:
            return self._either(schema[keywords.pop()])
        if kind in _NUMBERS:
            return self._number(schema, bounded=keywords != {"type"})
        if kind not in _KEYWORDS or not keywords <= _KEYWORDS[kind]:
            raise _Unwritable
        return self._object(schema) if kind == "object" else self._array(schema)

    def _either(self, schemas: Sequence[Any]) -> str:
        return f"({' | '.join(map(self.expression, schemas))})"

    def _number(self, schema: Mapping[str, Any], *, bounded: bool) -> str:
        if not bounded:
            return _INTEGER if schema["type"] == "integer" else _NUMBER
        expression = self.json(_with_bounds(dict(schema)))
        if "multipleOf" in schema:
            return expression
        large = _LARGE_INTEGER if schema["type"] == "integer" else _LARGE_NUMBER
        if not schema.keys() & {"maximum", "exclusiveMaximum"}:
            expression = f"{expression} | /{large}/"
        if not schema.keys() & {"minimum", "exclusiveMinimum"}:
            expression = f"{expression} | /-{large}/"
        return f"({expression})"

    def _object(self, schema: Mapping[str, Any]) -> str:
        fields, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        patterns = schema.get("patternProperties", {})
        if not fields and not patterns and isinstance(more, Mapping):
            return self._mapping({"type": "string"}, more)
        if not fields and len(patterns) == 1 and more is False:
            ((pattern, values),) = patterns.items()
            return self._mapping({"type": "string", "pattern": pattern}, values)
        if patterns or more is not False or not set(schema.get("required", ())) <= set(fields):
            raise _Unwritable
        separator = self._form["key_separator"]
        members = {
            name: f"{_text(json.dumps(name, ensure_ascii=False) + separator)} {self.expression(field)}"
            for name, field in fields.items()
        }
        return f"({_text('{')} {self._members(members, set(schema.get('required', ())))} {_text('}')})"

    def _members(self, members: Mapping[str, str], required: set[str]) -> str:
        """Return the members in their order; one that is not required may be left out, with its separator."""
        between, names = _text(self._form["item_separator"]), list(members)
        rest = [f"{between} {members[name]}" for name in names]
        rest = [part if name in required else f"({part})?" for name, part in zip(names, rest, strict=True)]
        # The first member that is written has no separator: any up to the first that is required.
        leading = list(itertools.takewhile(lambda name: name not in required, names))
        firsts = names[: len(leading) + 1]
        ways = [" ".join([members[name], *rest[at + 1 :]]) for at, name in enumerate(firsts)]
        return f"({' | '.join(ways)}){'' if required else '?'}"

    def _mapping(self, names: Mapping[str, Any], values: Any) -> str:
        member = f"{self.json(names)} {_text(self._form['key_separator'])} {self.expression(values)}"
        between = _text(self._form["item_separator"])
        return f"({_text('{')} ({member} ({between} {member})*)? {_text('}')})"

    def _array(self, schema: Mapping[str, Any]) -> str:
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        between = _text(self._form["item_separator"])
        if "prefixItems" in schema:
            items = [self.expression(item) for item in schema["prefixItems"]]
            if not least == most == len(items):
                raise _Unwritable
            return f"({_text('[')} {f' {between} '.join(items)} {_text(']')})"
        if most == 0:
            return _text("[]")
        item = self.expression(schema["items"])
        more = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        row = f"{item} ({between} {item}){more}"
        return f"({_text('[')} {f'({row})?' if least == 0 else row} {_text(']')})"

    def _reference(self, reference: str) -> str:
        """Return the name of the rule for a definition; inside it, the rule may refer to itself."""
        if reference not in self._names:
            name = self._names[reference] = f"ref{len(self._names)}"
            self.rules[name] = self.expression(self._definition(reference))
        return self._names[reference]

    def _definition(self, reference: str) -> Any:
        place, _, name = reference.removeprefix("#/").partition("/")
        try:
            return self._definitions[place][name]
        except KeyError:
            raise _Unwritable from None

    def _has_number(self, schema: Any, seen: frozenset[str]) -> bool:
        """Return whether a number in the schema may have any number of digits."""
        if not isinstance(schema, Mapping):
            return False
        if "$ref" in schema:
            reference = schema["$ref"]
            return reference not in seen and self._has_number(self._definition(reference), seen | {reference})
        if "enum" in schema or "const" in schema:
            return False
        if _is_number(schema):
            return True
        inner = [*schema.get("properties", {}).values(), *schema.get("patternProperties", {}).values()]
        inner += [schema.get("items"), schema.get("additionalProperties")]
        inner += [part for key in ("anyOf", "oneOf", "allOf", "prefixItems") for part in schema.get(key, ())]
        return any(self._has_number(part, seen) for part in inner)


def _with_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Give a number the bounds that it lacks."""
    if not _is_number(schema) or "enum" in schema or "const" in schema:
        return schema
    real = "number" in schema["type"]
    most: float = float(10**_REAL_DIGITS) if real else 10**_INTEGER_DIGITS
    bounds: dict[str, Any] = {"multipleOf": _STEP} if real else {}
    if not schema.keys() & {"maximum", "exclusiveMaximum"}:
        bounds["exclusiveMaximum"] = most
    if not schema.keys() & {"minimum", "exclusiveMinimum"}:
        bounds["exclusiveMinimum"] = -most
    return {**bounds, **schema}


def _is_number(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind in _NUMBERS if isinstance(kind, str) else isinstance(kind, list) and bool(_NUMBERS & set(kind))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
