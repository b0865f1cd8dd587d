"""The JSON schemas of Python types, no wider than the types: text that fits one can be read as a value of the type.

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
"""Formats that every text has, and that grammars do not know."""

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
# More than that no grammar can keep.
_MOST_DIGITS = 15
_MOST_PLACES = 9


def schema_of(output_type: Any) -> dict[str, Any]:
    """The schema that text has to fit. Raises `UnsupportedConstraint` for a type that JSON cannot carry."""
    try:
        return TypeAdapter(output_type).json_schema(schema_generator=_Narrow)
    except (PydanticUserError, PydanticSchemaGenerationError, SchemaError) as error:
        raise UnsupportedConstraint(f"{output_type!r} has no JSON schema, so no constraint: {error}") from error


class _Narrow(GenerateJsonSchema):
    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """As pydantic does, with formats and names of keys that grammars know."""
        return _mended(super().generate_inner(schema))

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """A number, with as many digits as it may have."""
        return decimal_number(super().decimal_schema(schema), schema)

    def complex_schema(self, schema: Any) -> dict[str, Any]:
        """As Python writes them, without brackets."""
        return {"type": "string", "pattern": _COMPLEX}

    def url_schema(self, schema: Any) -> dict[str, Any]:
        """Addresses of the schemes that are allowed, on a host with a name."""
        made = super().url_schema(schema)
        schemes = schema.get("allowed_schemes")
        if not schemes:
            return made
        pattern = f"^({'|'.join(map(re.escape, schemes))}){_AFTER_SCHEME}"
        return {**{key: part for key, part in made.items() if key != "format"}, "pattern": pattern}

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """With keys that can be read as what they are."""
        made, key = super().dict_schema(schema), schema.get("keys_schema", {}).get("type")
        return _keyed(made, _KEYS[key]) if key in _KEYS else made


def decimal_number(made: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The number out of pydantic's schema for a `Decimal`, which is a number or any text."""
    number: dict[str, Any] = made["anyOf"][0] if "anyOf" in made else {"type": "number"}
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    if places is not None:
        return _limited(number, digits or places + _MOST_DIGITS, places)
    if digits is not None:
        return {"anyOf": [_limited(number, digits, some) for some in range(min(digits, _MOST_PLACES) + 1)]}
    return number


def _limited(number: dict[str, Any], digits: int, places: int) -> dict[str, Any]:
    """The number with at most so many digits, of which so many are behind the point."""
    bound = float(10 ** min(max(digits - places, 0), _MOST_DIGITS))
    made = {"multipleOf": float(f"1e-{min(places, _MOST_PLACES)}") if places else 1, **number}
    if min(made.get("maximum", bound), made.get("exclusiveMaximum", bound)) >= bound:
        made.pop("maximum", None)
        made["exclusiveMaximum"] = bound
    if max(made.get("minimum", -bound), made.get("exclusiveMinimum", -bound)) <= -bound:
        made.pop("minimum", None)
        made["exclusiveMinimum"] = -bound
    return made


def _mended(made: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in made:
        return {**made, "anyOf": [_mended(part) for part in made["anyOf"]]}
    if made.get("contentMediaType") == "application/json":
        raise UnsupportedConstraint(
            "no grammar can be made of JSON inside a text: ask for what is in `Json[...]` itself"
        )
    form, names = made.get("format"), made.get("propertyNames")
    if form in _ANY_TEXT or form in _PATTERNS:
        made = {key: part for key, part in made.items() if key != "format"}
        return {**made, "pattern": _PATTERNS[form]} if form in _PATTERNS else made
    if names is not None and "additionalProperties" in made:
        choices = [names["const"]] if "const" in names else names.get("enum", ())
        pattern = f"^({'|'.join(re.escape(str(one)) for one in choices)})$" if choices else names.get("pattern")
        return _keyed(made, pattern) if pattern else made
    return made


def _keyed(made: dict[str, Any], pattern: str) -> dict[str, Any]:
    kept = {key: part for key, part in made.items() if key not in ("propertyNames", "additionalProperties")}
    values = made.get("additionalProperties", True)
    return {**kept, "patternProperties": {pattern: values}, "additionalProperties": False}
