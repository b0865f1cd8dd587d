"""JSON schemas of Python types, no wider than the types: text that fits one can be parsed as a value of the type.

Pydantic's own schemas are wider: any text for a `Decimal`, any names for the keys of a `dict[int, str]`.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from .errors import UnsupportedConstraint

_ANY_TEXT = frozenset({"path", "binary", "password"})
"""Formats that fit every text, and that grammars do not know."""

_WHOLE = "(0|[1-9][0-9]{0,15})"
_REAL = rf"{_WHOLE}(\.[0-9]{{1,15}})?"
_PATTERNS = {
    "fraction": f"^-?{_WHOLE}/[1-9][0-9]{{0,15}}$",
    "base64": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    "base64url": "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$",
}
_COMPLEX = f"^-?{_REAL}([+-]{_REAL}j)?$"
_KEYS = {"int": f"^-?{_WHOLE}$", "float": f"^-?{_REAL}$", "decimal": f"^-?{_REAL}$", "bool": "^(true|false)$"}
_LABEL = "[A-Za-z0-9]+(-[A-Za-z0-9]+)*"
_AFTER_SCHEME = rf"://({_LABEL}\.)+[A-Za-z]{{2,20}}(:[1-9][0-9]{{0,3}})?(/[A-Za-z0-9._~/?#&=+-]*)?$"
# The limits of llguidance's numbers.
_MOST_DIGITS = 15
_MOST_PLACES = 9


def schema_of(output_type: Any) -> dict[str, Any]:
    """Return the schema of a type. Raises `UnsupportedConstraint` for a type that JSON cannot carry."""
    try:
        return TypeAdapter(output_type).json_schema(schema_generator=_Narrow)
    except (PydanticUserError, PydanticSchemaGenerationError, SchemaError) as error:
        raise UnsupportedConstraint(f"{output_type!r} has no JSON schema, so no constraint: {error}") from error


class _Narrow(GenerateJsonSchema):
    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """Return pydantic's schema, with formats and names of keys that grammars know."""
        return _narrowed(super().generate_inner(schema))

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a number, with as many digits as it may have."""
        return decimal_number(super().decimal_schema(schema), schema)

    def complex_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of complex numbers, which Python writes without brackets here."""
        return {"type": "string", "pattern": _COMPLEX}

    def url_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of URLs with an allowed scheme and a named host."""
        json_schema = super().url_schema(schema)
        schemes = schema.get("allowed_schemes")
        if not schemes:
            return json_schema
        pattern = f"^({'|'.join(map(re.escape, schemes))}){_AFTER_SCHEME}"
        return {**{key: part for key, part in json_schema.items() if key != "format"}, "pattern": pattern}

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a dict whose keys can be parsed as their type."""
        json_schema, key = super().dict_schema(schema), schema.get("keys_schema", {}).get("type")
        return _keyed(json_schema, _KEYS[key]) if key in _KEYS else json_schema


def decimal_number(json_schema: dict[str, Any], schema: Any) -> dict[str, Any]:
    """Return the number in pydantic's schema of a `Decimal`, which is a number or any text."""
    number: dict[str, Any] = json_schema["anyOf"][0] if "anyOf" in json_schema else {"type": "number"}
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    if places is not None:
        return _limited(number, digits or places + _MOST_DIGITS, places)
    if digits is not None:
        return {"anyOf": [_limited(number, digits, places) for places in range(min(digits, _MOST_PLACES) + 1)]}
    return number


def _limited(number: dict[str, Any], digits: int, places: int) -> dict[str, Any]:
    """Bound a number to so many digits, of which so many are behind the point."""
    bound = float(10 ** min(max(digits - places, 0), _MOST_DIGITS))
    json_schema = {"multipleOf": float(f"1e-{min(places, _MOST_PLACES)}") if places else 1, **number}
    if min(json_schema.get("maximum", bound), json_schema.get("exclusiveMaximum", bound)) >= bound:
        json_schema.pop("maximum", None)
        json_schema["exclusiveMaximum"] = bound
    if max(json_schema.get("minimum", -bound), json_schema.get("exclusiveMinimum", -bound)) <= -bound:
        json_schema.pop("minimum", None)
        json_schema["exclusiveMinimum"] = -bound
    return json_schema


def _narrowed(json_schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in json_schema:
        return {**json_schema, "anyOf": [_narrowed(part) for part in json_schema["anyOf"]]}
    if json_schema.get("contentMediaType") == "application/json":
        raise UnsupportedConstraint("JSON inside a text has no grammar: ask for the type in `Json[...]` itself")
    form, names = json_schema.get("format"), json_schema.get("propertyNames")
    if form in _ANY_TEXT or form in _PATTERNS:
        json_schema = {key: part for key, part in json_schema.items() if key != "format"}
        return {**json_schema, "pattern": _PATTERNS[form]} if form in _PATTERNS else json_schema
    if names is not None and "additionalProperties" in json_schema:
        choices = [names["const"]] if "const" in names else names.get("enum", ())
        pattern = f"^({'|'.join(re.escape(str(choice)) for choice in choices)})$" if choices else names.get("pattern")
        return _keyed(json_schema, pattern) if pattern else json_schema
    return json_schema


def _keyed(json_schema: dict[str, Any], pattern: str) -> dict[str, Any]:
    rest = {key: part for key, part in json_schema.items() if key not in ("propertyNames", "additionalProperties")}
    values = json_schema.get("additionalProperties", True)
    return {**rest, "patternProperties": {pattern: values}, "additionalProperties": False}
