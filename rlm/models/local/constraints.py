"""Constraints on the text of an answer, for any type, as plain JSON.

A `Literal`, an `Enum` of texts or numbers and a term of Outlines (`Regex`, `CFG`, ...) are written without JSON around
them. Everything else is written as JSON: `str` in quotes, `None` as `null`, lists, optionals and models alike.
"""

from __future__ import annotations

import enum
import json
import re
import sys
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from ...json_schema import closed, map_schemas

Kind = Literal["json_schema", "regex", "lark"]

_CARRIER = "x-outlines"
"""The key of a constraint that is not a JSON schema, inside the schema of a `response_format`."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A JSON schema, a regular expression or a Lark grammar, as text. Equal constraints share one compiled grammar."""

    kind: Kind
    source: str

    def response_format(self) -> dict[str, Any]:
        """Return the constraint as a response format, the one field that dspy passes to engines."""
        schema = json.loads(self.source) if self.kind == "json_schema" else {_CARRIER: {self.kind: self.source}}
        return {"type": "json_schema", "name": "constraint", "schema": schema}


def constraint_of(output_type: Any) -> Constraint:
    """Return the constraint for a type or a term of Outlines. Raises `UnsupportedConstraint`."""
    if isinstance(output_type, Constraint):
        return output_type
    choices = _choices(output_type)
    if choices is not None:
        return Constraint("regex", "|".join(re.escape(str(choice)) for choice in choices))
    if isinstance(output_type, dict):
        return from_schema(output_type)
    term = _term(output_type)
    if term is not None:
        return term
    from .type_schemas import schema_of

    return from_schema(schema_of(output_type))


def from_schema(schema: dict[str, Any]) -> Constraint:
    """Return the constraint for a JSON schema. Objects that list their properties are closed.

    No grammar can express `uniqueItems`, so it is left out: a set is read from a list with repeats.
    """
    narrowed = map_schemas(schema, lambda part: closed({key: part[key] for key in part if key != "uniqueItems"}))
    return Constraint("json_schema", json.dumps(narrowed, ensure_ascii=False))


def from_response_format(response_format: dict[str, Any] | None) -> Constraint | None:
    """Return the constraint of a request, if it has one."""
    if response_format is None:
        return None
    schema = response_format.get("schema")
    if schema is None:
        return from_schema({"type": "object"})
    other = schema.get(_CARRIER)
    if isinstance(other, dict):
        ((kind, source),) = other.items()
        return Constraint(kind, source)
    return from_schema(schema)


def _choices(output_type: Any) -> tuple[Any, ...] | None:
    if get_origin(output_type) is Literal:
        values = get_args(output_type)
    elif isinstance(output_type, type) and issubclass(output_type, enum.Enum):
        values = tuple(member.value for member in output_type)
    else:
        return None
    plain = all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in values)
    return values if values and plain else None


def _term(output_type: Any) -> Constraint | None:
    if "outlines.types.dsl" not in sys.modules:
        return None  # there is no term without Outlines, which takes seconds to import
    from outlines.types.dsl import CFG, JsonSchema, Term, to_regex

    if not isinstance(output_type, Term):
        return None
    if isinstance(output_type, CFG):
        return Constraint("lark", _lark(output_type.definition))
    if isinstance(output_type, JsonSchema):
        return from_schema(json.loads(output_type.schema))
    return Constraint("regex", to_regex(output_type))


def _lark(definition: str) -> str:
    """Return the grammar in Lark, which llguidance takes; Outlines takes GBNF, too."""
    if "::=" not in definition:
        return definition
    from llguidance.gbnf_to_lark import gbnf_to_lark

    return str(gbnf_to_lark(definition))
