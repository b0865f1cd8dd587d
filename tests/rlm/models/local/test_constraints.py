"""A type becomes a constraint, travels as JSON, and is checked against text. No model is needed."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Literal

import pytest
from outlines import types
from outlines.grammars import arithmetic
from pydantic import BaseModel
from typing_extensions import TypedDict

from rlm.models.local.constraint_check import allows, checked
from rlm.models.local.constraints import Constraint, constraint_of, from_response_format
from rlm.models.local.errors import ConstraintViolated, UnsupportedConstraint
from rlm.models.local.types import Generated


class Person(BaseModel):
    name: str
    age: int


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Named(TypedDict):
    name: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue (dark)"


CASES: list[tuple[Any, str, str]] = [
    (Person, '{"name": "Ann", "age": 3}', '{"name": "Ann"}'),
    (Person, '{"name": "Ann", "age": 3}', '{"name": "Ann", "age": 3, "more": 1}'),
    (Point, '{"x": 1, "y": 2}', '{"x": 1, "y": "2"}'),
    (Named, '{"name": "a"}', "{}"),
    (Literal["yes", "no"], "yes", '"yes"'),
    (Literal[1, 2], "2", "3"),
    (Colour, "blue (dark)", "blue dark"),
    (int, "-12", "1.5"),
    (float, "1.5", "one"),
    (bool, "true", "True"),
    (str, '"a \\"b\\""', "a"),
    (list[int], "[1, 2]", "[1, null]"),
    (int | None, "null", "None"),
    (dict[str, int], '{"a": 1}', '{"a": "b"}'),
    (types.Regex(r"\d{3}-\d{4}"), "123-4567", "\N{FULLWIDTH DIGIT ONE}23-4567"),
    (types.CFG(arithmetic), "(1+2)*3", "1+"),
    (types.CFG('root ::= "a" | "b"'), "b", "c"),
    (
        types.JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        '{"a": 1}',
        "{}",
    ),
    (types.date, "2024-02-29", "29.2.2024"),
    ({"type": "array", "items": {"enum": ["x"]}}, '["x"]', '["y"]'),
]


@pytest.mark.parametrize(("output_type", "good", "bad"), CASES)
def test_any_type_is_a_constraint_that_tells_texts_apart(output_type: Any, good: str, bad: str) -> None:
    constraint = constraint_of(output_type)
    assert allows(constraint, good)
    assert not allows(constraint, bad)


@pytest.mark.parametrize("output_type", [case[0] for case in CASES])
def test_a_constraint_survives_the_way_through_dspy(output_type: Any) -> None:
    constraint = constraint_of(output_type)
    carried = json.loads(json.dumps(constraint.response_format()))
    assert from_response_format(carried) == constraint


def test_a_property_may_be_called_properties() -> None:
    class Odd(BaseModel):
        properties: dict[str, int]
        items: list[str]

    constraint = constraint_of(Odd)
    assert allows(constraint, '{"properties": {"a": 1}, "items": ["b"]}')
    assert not allows(constraint, '{"properties": {"a": 1}, "items": ["b"], "additionalProperties": false}')


def test_what_has_no_schema_is_refused_by_name() -> None:
    class Opaque:
        """No schema can be made of this."""

    with pytest.raises(UnsupportedConstraint, match="Opaque"):
        constraint_of(Opaque)


def test_a_grammar_that_cannot_be_read_is_refused_before_a_model_is_asked() -> None:
    with pytest.raises(UnsupportedConstraint, match="regex"):
        allows(Constraint("regex", "(unclosed"), "x")


def test_a_cut_answer_is_passed_on_as_cut_and_an_invalid_one_never() -> None:
    constraint = constraint_of(Person)
    cut = Generated('{"name": "An', "length", 1, 1)
    assert checked(cut, constraint) is cut
    with pytest.raises(ConstraintViolated, match="cut off"):
        checked(cut, constraint, cut_is_error=True)
    with pytest.raises(ConstraintViolated, match="does not allow"):
        checked(Generated("Ann is 3", "stop", 1, 1), constraint)
