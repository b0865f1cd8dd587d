"""What an answer has to be: the schemas that models are held to, and the reading of what they write."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any, Literal

import dspy
import pytest
from pydantic import BaseModel, Field

from rlm.adapters.output_spec import NoTarget, target_of, target_of_signature
from rlm.extraction import ParseError
from rlm.json_schema import is_open, strict, wrapped
from rlm.signatures import Signature


class Part(BaseModel):
    name: str
    size: int = 3
    inner: list[Part] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: set[str]


class Mixed(enum.StrEnum):
    A = "a"
    B = "b"


def test_every_property_is_requested_and_no_other_is_allowed() -> None:
    schema = strict(Part.model_json_schema())
    part = schema["$defs"]["Part"]
    assert part["required"] == ["name", "size", "inner"]
    assert part["additionalProperties"] is False
    assert "default" not in json.dumps(schema)


def test_only_plain_keywords_are_left() -> None:
    kind = Annotated[Cat | Dog, Field(discriminator="kind")]
    schema = json.dumps(target_of(kind).strict)
    assert "anyOf" in schema
    assert not [word for word in ("oneOf", "discriminator", "uniqueItems", "const", "title") if word in schema]


def test_a_property_that_is_called_like_a_keyword_stays() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "default": {"type": "integer"}}}
    assert strict(schema)["required"] == ["title", "default"]


def test_nothing_stands_beside_a_reference() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A", "description": "an A"}}, "$defs": {"A": {"type": "string"}}}
    assert strict(schema)["properties"]["a"] == {"$ref": "#/$defs/A"}


@pytest.mark.parametrize(
    ("kind", "expected"), [(dict[str, int], True), (list[dict[str, int]], True), (Part, False), (list[Cat], False)]
)
def test_open_mappings_are_known(kind: Any, expected: bool) -> None:
    assert is_open(target_of(kind).strict) is expected


def test_what_is_no_object_is_wrapped_in_one_with_its_definitions() -> None:
    target = target_of(list[Part])
    schema = dict(target.object_schema)
    assert schema["properties"]["answer"]["items"] == {"$ref": "#/$defs/Part"}
    assert "Part" in schema["$defs"]
    assert wrapped({"type": "integer"})["required"] == ["answer"]
    assert target.read_object('{"answer": [{"name": "a", "size": 1, "inner": []}]}') == [Part(name="a", size=1)]


@pytest.mark.parametrize(
    ("kind", "constraint"),
    [
        (Literal["a", "b"], Literal["a", "b"]),
        (Mixed, Mixed),
        (["a", "b"], Literal["a", "b"]),
        (Literal[1, 2], Literal[1, 2]),
    ],
)
def test_choices_stand_by_themselves(kind: Any, constraint: Any) -> None:
    target = target_of(kind)
    assert target.bare is not None
    assert target.bare.constraint == constraint


@pytest.mark.parametrize(
    "kind",
    [
        Literal[True, False],
        Literal["a", None],
        Literal["1", 1],
        Literal[" a", "b"],
        Literal[Mixed.A],
        Literal["a"] | None,
        list[Literal["a", "b"]],
        int,
        Annotated[int, Field(ge=1)],
        Annotated[str, Field(min_length=1)],
    ],
)
def test_what_could_be_misread_does_not_stand_by_itself(kind: Any) -> None:
    assert target_of(kind).bare is None


def test_a_constrained_answer_is_not_mended() -> None:
    target = target_of(Cat)
    for said in (
        '```json\n{"kind": "cat", "lives": 9}\n```',
        "{'kind': 'cat', 'lives': 9}",
        '{"kind": "cat", "lives": 9',
    ):
        with pytest.raises(ParseError):
            target.read(said)
        if said.endswith("9"):
            continue
        assert target.find(said) == Cat(kind="cat", lives=9)


def test_a_choice_may_also_come_as_json() -> None:
    target = target_of(["a", "b"])
    assert target.read('"a"') == target.read("a") == "a"
    assert target.find('"a"') == "a"
    with pytest.raises(ParseError):
        target.read("A")


def test_a_signature_is_made_into_a_target_once() -> None:
    signature = dspy.Signature("q -> a: int, b")
    assert target_of_signature(signature) is target_of_signature(signature)
    assert target_of_signature(signature).fields == ("a", "b")


def test_tool_calls_have_no_target() -> None:
    signature = dspy.Signature({"q": (str, dspy.InputField()), "calls": (dspy.ToolCalls, dspy.OutputField())})
    with pytest.raises(NoTarget):
        target_of_signature(signature)


def test_fields_may_be_called_like_methods_of_pydantic() -> None:
    signature = Signature.of("q -> json: int, copy: str").to_dspy()
    assert target_of_signature(signature).read('{"json": 1, "copy": "x"}') == {"json": 1, "copy": "x"}


def test_defaults_and_optional_outputs_may_be_missing_without_a_constraint() -> None:
    outputs = {"a": (int, dspy.OutputField()), "b": (str | None, dspy.OutputField())}
    signature = dspy.Signature({"q": (str, dspy.InputField()), **outputs})
    target = target_of_signature(signature)
    assert target.find('{"a": 1}') == {"a": 1, "b": None}
    assert target.strict["required"] == ["a", "b"]


def test_a_json_schema_gives_plain_values() -> None:
    target = target_of({"type": "array", "items": {"type": "integer"}})
    assert target.read("[1, 2]") == [1, 2]
    assert target.bare is None


def test_numbers_are_requested_in_plain_words_with_their_bounds() -> None:
    assert target_of(int).instructions == "one whole number in digits, and nothing else"
    bounded = Annotated[float, Field(ge=1, lt=5)]
    assert target_of(bounded).instructions == "one number in digits, at least 1, below 5, and nothing else"


def test_a_type_that_cannot_be_hashed_has_a_target_all_the_same() -> None:
    odd = Annotated[int, ["anything"]]
    assert target_of(odd).read("3") == 3


def test_a_bounded_schema_is_as_strict_and_has_an_end() -> None:
    from rlm.json_schema import bounded

    schema = {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 10},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "note": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
            "part": {"$ref": "#/$defs/Part"},
        },
        "$defs": {"Part": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    made = bounded(schema, 400)
    fields = made["properties"]
    assert fields["tags"] == {
        "type": "array", "minItems": 10, "maxItems": 10, "items": {"type": "string", "maxLength": 12},
    }  # fmt: skip
    assert fields["kind"] == schema["properties"]["kind"]
    assert fields["note"] == schema["properties"]["note"]
    assert made["$defs"]["Part"]["properties"]["name"]["maxLength"] == 100
