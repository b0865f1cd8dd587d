"""Numbers that come to an end: the grammar takes what the schema takes, but for digits without end."""

from __future__ import annotations

import json
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rlm.models.local.constraint_check import checked
from rlm.models.local.constraints import constraint_of
from rlm.models.local.errors import ConstraintViolated
from rlm.models.local.grammar import grammar_text, lark_text
from rlm.models.local.types import Generated

llguidance = pytest.importorskip("llguidance")


class Part(BaseModel):
    name: str
    weight: float


class Machine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    label: str = Field(description="what is on it")
    parts: list[Part]
    count: int
    load: float | None
    kind: Literal["a", "b"]
    sizes: list[int] = Field(min_length=1, max_length=3)


class Tree(BaseModel):
    value: float
    children: list[Tree]


class Priced(BaseModel):
    price: float = 1.0
    note: Optional[str] = None  # noqa: UP045


def accepts(kind: Any, text: str) -> bool:
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, grammar_text(constraint_of(kind)))
    assert not matcher.is_error(), matcher.get_error()
    data = list(text.encode())
    return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())


MACHINE = {
    "label": 'the "big" one, {été}', "parts": [{"name": "wheel", "weight": 2.5}, {"name": "", "weight": -1e-19}],
    "count": 12, "load": None, "kind": "b", "sizes": [1, 2, 3],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (float, 118.4), (float, -0.5), (float, 6.02e23), (float, 0), (int, 10**23), (int, -7),
        (list[float], []), (list[float], [1.5, 2.0]), (dict[str, float], {"a": 1.5}),
        (float | None, None), (Machine, MACHINE), (Machine, {**MACHINE, "load": 0.25, "parts": [], "sizes": [5]}),
        (Tree, {"value": 1.0, "children": [{"value": 2.5, "children": []}, {"value": 3.0, "children": []}]}),
        (Priced, {"price": 2.5, "note": None}), (Priced, {"note": "x"}), (Part, {"name": "a", "weight": 1.0}),
    ],
)  # fmt: skip
def test_what_the_type_writes_is_taken(kind: Any, value: Any) -> None:
    assert TypeAdapter(kind).validate_python(value) is not ...
    assert accepts(kind, json.dumps(value, ensure_ascii=False))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Machine, json.dumps({**MACHINE, "sizes": []})),
        (Machine, json.dumps({**MACHINE, "sizes": [1, 2, 3, 4]})),
        (Machine, json.dumps({**MACHINE, "kind": "c"})),
        (Machine, json.dumps({**MACHINE, "more": 1})),
        (Machine, json.dumps({name: MACHINE[name] for name in MACHINE if name != "count"})),
        (Tree, '{"value": 1.0, "children": [{"value": 2.5}]}'),
        (int, "1.5"), (int, "007"), (float, '"1.5"'), (float, "1."), (list[float], "[1.5,]"), (list[int], "[1 2]"),
    ],
)  # fmt: skip
def test_what_the_type_refuses_is_refused(kind: Any, text: str) -> None:
    assert not accepts(kind, text)


@pytest.mark.parametrize("digits", ["-0." + "0" * 100, "1" * 100, "1." + "3" * 60])
def test_digits_without_end_are_refused(digits: str) -> None:
    assert not accepts(float, digits)
    assert not accepts(list[float], f"[{digits}]")
    assert not accepts(Part, f'{{"name": "a", "weight": {digits}}}')
    assert not accepts(Tree, f'{{"value": {digits}, "children": []}}')


def test_a_schema_without_numbers_stays_a_schema() -> None:
    class Plain(BaseModel):
        name: str
        tags: list[Literal["a", "b"]]

    assert lark_text(constraint_of(Plain)).startswith("start: %json {")
    assert len(lark_text(constraint_of(Plain)).splitlines()) == 1


def test_numbers_with_bounds_keep_them() -> None:
    class Aged(BaseModel):
        age: int = Field(ge=0, le=150)
        weight: float

    assert accepts(Aged, '{"age": 150, "weight": 1.5}')
    assert not accepts(Aged, '{"age": 151, "weight": 1.5}')
    assert not accepts(Aged, '{"age": -1, "weight": 1.5}')
    assert not accepts(Aged, '{"age": 15, "weight": 0.' + "0" * 100 + "}")


class Positive(BaseModel):
    count: int = Field(ge=0)
    share: float = Field(gt=0)
    note: str | None = None


class Card(BaseModel):
    kind: Literal["card"]
    number: int


class Cash(BaseModel):
    kind: Literal["cash"]
    amount: float


class Paid(BaseModel):
    by: Card | Cash = Field(discriminator="kind")
    sizes: tuple[int, float]
    counts: dict[str, int]
    extra: dict[int, float] = Field(default_factory=dict)


class AtLeastOne(BaseModel):
    counts: dict[str, int] = Field(min_length=1)  # `minProperties` is not written as Lark


EXTRACTION = {
    "type": "object",
    "properties": {"answer": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "notes": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
PAID = '{{"by": {{"kind": "card", "number": {0}}}, "sizes": [{0}, 1.5], "counts": {{"a": {0}}}, "extra": {{"7": 2.5}}}}'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (EXTRACTION, '{{"answer": {0}}}'),
        (EXTRACTION, '{{"answer": {0}, "notes": "counted"}}'),
        (Positive, '{{"count": {0}, "share": 0.5}}'),
        (Positive, '{{"count": {0}, "share": 0.5, "note": null}}'),
        (Paid, PAID),
        (AtLeastOne, '{{"counts": {{"a": {0}}}}}'),
        ({"type": ["integer", "null"]}, "{0}"),
        ({"type": "integer", "multipleOf": 3}, "{0}"),
        ({"type": "number", "minimum": 0}, "{0}"),
    ],
)
def test_every_schema_bounds_the_digits_of_its_numbers(kind: Any, text: str) -> None:
    assert accepts(kind, text.format(123))
    assert not accepts(kind, text.format("1" * 83))
    assert not accepts(kind, text.format("1" * 25))


def test_fractions_with_bounds_come_to_an_end() -> None:
    share = {"type": "number", "minimum": 0, "maximum": 1}
    assert accepts(share, "0.333333333")
    assert not accepts(share, "0." + "3" * 60)


def test_optional_members_keep_their_order_and_separators() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    for text in ('{"b": 2}', '{"a": 1, "b": 2}', '{"b": 2, "c": 3}', '{"a": 1, "b": 2, "c": 3}'):
        assert accepts(schema, text)
    for text in ("{}", '{"a": 1}', '{"a": 1, "c": 3}', '{, "b": 2}', '{"b": 2, }', '{"c": 3, "b": 2}'):
        assert not accepts(schema, text)
    optional = {**schema, "required": []}
    for text in ("{}", '{"a": 1}', '{"c": 3}', '{"a": 1, "c": 3}'):
        assert accepts(optional, text)


def _generated(text: str) -> Generated:
    return Generated(text, "stop", 10, 20)


def test_a_number_that_reaches_the_limit_was_cut_off() -> None:
    constraint = constraint_of(int)
    assert checked(_generated("1" * 23), constraint).finish == "stop"
    assert checked(_generated("-" + "8" * 24), constraint).finish == "length"
    assert checked(_generated("[1, 2.5, " + "8" * 24 + ".5e3]"), constraint_of(list[float])).finish == "length"
    with pytest.raises(ConstraintViolated, match="cut off"):
        checked(_generated("1" * 24), constraint, cut_is_error=True)


def test_a_long_number_that_the_schema_names_may_be_written() -> None:
    schema = {"type": "object", "properties": {"id": {"enum": [10**30]}}, "required": ["id"]}
    assert checked(_generated(json.dumps({"id": 10**30})), constraint_of(schema)).finish == "stop"
