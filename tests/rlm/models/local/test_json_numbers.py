"""Numbers that come to an end: the grammar takes what the schema takes, but for digits without end."""

from __future__ import annotations

import json
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rlm.models.local.constraints import constraint_of
from rlm.models.local.grammar import grammar_text, lark_text

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
