"""`llm_query` and `llm_batch` with a type: values come back, every call is counted, what never fits is an error."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from rlm.adapters import typed_query
from rlm.budgets import FallbackTrigger
from rlm.repl.answer_types import wanted_type


async def test_an_answer_comes_back_as_a_value(make):
    code = "n = llm_query('how many?', type='int')\nSUBMIT(answer=n + 1)"
    made = make([code], signature="q: str -> answer: int", sub=["It is 41."] * 3)
    made.sub._engine_spec.script = ["41"]
    result = await made.run(q="x")
    assert result.outputs.answer == 42
    assert result.llm_calls == 1


@pytest.mark.parametrize(
    ("written", "said", "expected"),
    [
        ("int", "41", 41),
        ("float", "2.5", 2.5),
        ("bool", "true", True),
        ("str", "as it is", "as it is"),
        ("list[str]", '["a", "b"]', ["a", "b"]),
        ("int | None", "null", None),
        ("Literal['yes', 'no']", "no", "no"),
        ("Optional[int]", "3", 3),
    ],
)
async def test_a_python_type_is_a_type(make, written, said, expected):
    code = f"from typing import Literal, Optional\nSUBMIT(answer=[llm_query('?', type={written})])"
    made = make([code], signature="q: str -> answer: list", sub=[said])
    result = await made.run(q="x")
    assert result.outputs.answer == [expected]


async def test_a_pydantic_model_is_its_schema(make):
    code = (
        "from pydantic import BaseModel\nclass Person(BaseModel):\n    name: str\n"
        "SUBMIT(answer=llm_query('who?', type=Person)['name'])"
    )
    made = make([code], signature="q: str -> answer: str", sub=['{"name": "Ada"}'])
    assert (await made.run(q="x")).outputs.answer == "Ada"


async def test_a_type_is_no_answer(make):
    made = make(["SUBMIT(answer=int)", "SUBMIT(answer='five')"], signature="q: str -> answer: str")
    result = await made.run(q="x")
    assert result.outputs.answer == "five"
    assert "SUBMIT was given a type, not a value" in made.last_observation()


async def test_choices_are_held_to(make):
    code = "kinds = llm_batch(['apple', 'spanner'], type=['fruit', 'tool'])\nSUBMIT(answer=kinds)"
    made = make([code], signature="q: str -> answer: list[str]", sub={"apple": '"fruit"', "spanner": "tool"})
    result = await made.run(q="x")
    assert result.outputs.answer == ["fruit", "tool"]


async def test_a_schema_gives_a_dict(make):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    code = f"found = llm_query('who?', type={schema!r})\nSUBMIT(answer=found['name'])"
    made = make([code], signature="q: str -> answer: str", sub=['{"name": "Ada"}'])
    assert (await made.run(q="x")).outputs.answer == "Ada"


async def test_each_attempt_is_a_call_and_is_told(make):
    code = "n = llm_query('how many?', type='int')\nSUBMIT(answer=n)"
    made = make([code], signature="q: str -> answer: int", sub=["no idea", "still none", "7"])
    result = await made.run(q="x")
    assert result.outputs.answer == 7
    asked = [event.data for event in made.events if event.kind == "model_asked" and event.data["role"] == "sub"]
    assert result.usage.llm_calls == len(asked) == 3
    assert all(one["call"] is not None for one in asked)
    assert result.usage.model_calls == 4


async def test_attempts_stop_where_the_budget_does(make):
    code = "try:\n    llm_query('n?', type='int')\nexcept Exception as error:\n    SUBMIT(answer=type(error).__name__)"
    made = make(
        [code], signature="q: str -> answer: str", sub=["no"] * 5, trigger=FallbackTrigger(max_llm_calls=2)
    )  # fmt: skip
    result = await made.run(q="x")
    assert result.outputs.answer == "BudgetExceeded"
    assert result.usage.llm_calls == 2


async def test_in_a_batch_one_that_never_fits_does_not_sink_the_rest(make):
    code = "got = llm_batch(['good', 'bad'], type='int')\nprint(llm_errors())\nSUBMIT(answer=got)"
    made = make([code], signature="q: str -> answer: list[int | None]", sub={"bad": "never", "good": "5"})
    result = await made.run(q="x")
    assert result.outputs.answer == [5, None]


@pytest.mark.parametrize(("written", "expected"), [(None, None), ("str", None), ("int", int), ("list[str]", list[str])])
def test_types_as_code_writes_them(written, expected):
    assert wanted_type(written) == expected


@pytest.mark.parametrize("written", ["nothing", 5, "int ->"])
def test_what_is_no_type_is_said(written):
    with pytest.raises(TypeError, match="type="):
        wanted_type(written)


async def test_whatever_fails_in_a_batch_does_not_sink_the_rest(make, monkeypatch):
    async def ask_typed(lm, prompt, *rest, **options):
        if prompt == "odd":
            raise LookupError("no such page")
        return await real(lm, prompt, *rest, **options)

    real = typed_query.ask_typed
    monkeypatch.setattr(typed_query, "ask_typed", ask_typed)
    code = "print(llm_batch(['odd', 'even'], type=int), llm_errors())"
    made = make([code, "SUBMIT(answer=1)"], sub={"*": "2"})
    await made.run(doc="")
    assert "[None, 2] {'0': 'no such page'}" in made.last_observation()


def _chain(width: int, depth: int) -> dict:
    """Definitions of which each refers to the next several times: small to write, endless to walk through."""
    definitions = {f"a{at}": {"anyOf": [{"$ref": f"#/$defs/a{at + 1}"}] * width} for at in range(depth)}
    return {"$defs": {**definitions, f"a{depth}": {"type": "string"}}, "$ref": "#/$defs/a0"}


_EXPONENTIAL = {
    "itself in fields": {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}] * 40}}},
    "a chain": _chain(12, 12),
    "a thin chain": _chain(2, 40),
    "anchors": {"$defs": {"a": {"$anchor": "x", "anyOf": [{"$ref": "#x"}] * 12}}, "$ref": "#x"},
    "dynamic": {"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}] * 12},
    "another base": {"$defs": {"a": {"$id": "b", "anyOf": [{"$ref": "#"}] * 12}}, "$ref": "#/$defs/a"},
}


@pytest.mark.parametrize("kind", _EXPONENTIAL)
def test_a_type_that_takes_long_to_walk_through_is_refused_at_once(kind):
    began = time.thread_time()
    with pytest.raises(TypeError, match="type="):
        wanted_type(_EXPONENTIAL[kind])
    assert time.thread_time() - began < 0.2


@pytest.mark.parametrize(
    "large", [{"enum": ["x" * 50] * 50_000}, ["x" * 50 + str(at) for at in range(50_000)], "list[" * 5_000],
    ids=["schema", "choices", "text"],
)  # fmt: skip
def test_a_type_that_is_too_long_is_refused_and_not_kept(large):
    wanted_type(["a", "b"])
    tracemalloc.start()
    with pytest.raises(TypeError, match="at most"):
        wanted_type(large)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_types_of_code_are_not_kept_for_ever():
    wanted_type(["a", "b"])
    tracemalloc.start()
    for number in range(200):
        wanted_type({"enum": [f"{number} {at} {'x' * 50}" for at in range(500)]})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 15_000_000


_RECURSIVE = {
    "itself": {"anyOf": [{"$ref": "#"}] * 12},
    "a tree": {
        "$defs": {"node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "$ref": "#/$defs/node",
    },
    "expressions": {
        "anyOf": [
            {"properties": {"op": {"const": op}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["op"]}
            for op in "+-*/"
        ]
    },
    "any JSON": {
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#"}},
            {"type": "object", "additionalProperties": {"$ref": "#"}},
        ]
    },
    "many fields": {"type": "object", "properties": {f"f{at}": {"type": "string"} for at in range(300)}},
}


@pytest.mark.parametrize("kind", _RECURSIVE)
def test_recursive_and_wide_types_are_types(kind):
    began = time.thread_time()
    assert wanted_type(_RECURSIVE[kind]) == _RECURSIVE[kind]
    assert time.thread_time() - began < 0.2
