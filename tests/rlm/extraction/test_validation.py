"""What is wrong with a value: every problem, its path, what was expected, what came."""

from __future__ import annotations

import datetime
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm import json_values
from rlm.extraction import Problem, Schema, SchemaError, describe, refusal, validate_json

USER = Schema(
    {
        "type": "object",
        "properties": {
            "user": {"$ref": "#/$defs/User"},
            "when": {"type": "string", "format": "date"},
            "level": {"enum": ["low", "high"]},
            "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "shape": {"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Box"}]},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/User"}},
        },
        "required": ["user"],
        "additionalProperties": False,
        "$defs": {
            "User": {
                "type": "object",
                "properties": {"age": {"type": "integer"}, "name": {"type": "string"}},
                "required": ["age", "name"],
            },
            "Circle": {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                "required": ["kind", "r"],
            },
            "Box": {
                "type": "object",
                "properties": {"kind": {"const": "box"}, "w": {"type": "number"}, "h": {"type": "number"}},
                "required": ["kind", "w", "h"],
            },
        },
    }
)
BOB: dict[str, Any] = {"user": {"age": 3, "name": "Bob"}}


def lines(value: Any, schema: Schema = USER) -> list[str]:
    return describe(schema.problems(value)).splitlines()


def test_a_valid_value_has_no_problems() -> None:
    assert USER.problems(BOB) == ()


def test_a_problem_says_where_what_was_expected_and_what_came() -> None:
    (problem,) = USER.problems({"user": {"age": "abc", "name": "Bob"}})
    assert problem == Problem("/user/age", "an integer", '"abc" (a string)')
    assert str(problem) == "At path '/user/age': expected an integer, got \"abc\" (a string)"


def test_all_problems_are_found_at_once() -> None:
    value = {"user": {"age": "x"}, "when": "31.1.2024", "level": "mid", "limit": 0, "rows": [{"age": 1}], "extra": 1}
    assert sorted(problem.path for problem in USER.problems(value)) == [
        "/extra",
        "/level",
        "/limit",
        "/rows/0/name",
        "/user/age",
        "/user/name",
        "/when",
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"user": {"age": 1}}, "At path '/user/name': this field is missing; expected a string"),
        ({"level": "mid"}, 'At path \'/level\': expected one of "low", "high", got "mid" (a string)'),
        ({"limit": "no"}, "At path '/limit': expected an integer or null, got \"no\" (a string)"),
        ({"limit": 0}, "At path '/limit': expected a number of at least 1, got 0 (an integer)"),
        ({"when": "soon"}, "At path '/when': expected a date such as 2024-01-31, got \"soon\" (a string)"),
        ({"rows": [1]}, "At path '/rows/0': expected an object with the fields age and name, got 1 (an integer)"),
    ],
)
def test_the_words(change: dict[str, Any], line: str) -> None:
    assert lines(BOB | change) == [line]


def test_an_unexpected_field_is_named_with_the_fields_there_are() -> None:
    (line,) = lines(BOB | {"colour": "red"})
    assert line.startswith("At path '/colour': the schema has no such field")
    assert "user, when, level" in line


def test_of_alternatives_the_nearest_is_explained() -> None:
    assert [p.path for p in USER.problems(BOB | {"shape": {"kind": "box", "w": 1, "h": "x"}})] == ["/shape/h"]
    assert [p.path for p in USER.problems(BOB | {"shape": {"kind": "circle"}})] == ["/shape/r"]


def test_the_root_is_named() -> None:
    assert lines([]) == ["At path '/' (the whole value): expected an object with the field user, got [] (a list of 0)"]


def test_paths_are_json_pointers() -> None:
    schema = Schema({"additionalProperties": {"type": "integer"}})
    assert {problem.path for problem in schema.problems({"a/b": "x", "c~d": "y"})} == {"/a~1b", "/c~0d"}


@pytest.mark.parametrize("text", ["2024-01-31T09:30:00Z", "2024-01-31T09:30:00", "2024-01-31 09:30:00.5+01:00"])
def test_a_time_without_an_offset_is_a_time(text: str) -> None:
    assert not Schema({"format": "date-time"}).problems(text)


@pytest.mark.parametrize("text", ["2024-01-31", "2024-02-30T00:00:00", "yesterday", "2024-01-31T25:00:00Z"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    assert Schema({"format": "date-time"}).problems(text)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_number_for_is_a_problem_even_where_anything_goes(number: float) -> None:
    assert "not JSON" in str(Schema({}).problems({"x": [number]})[0])
    assert Schema({"type": ["number", "null"]}).problems(number)


def test_what_is_not_json_is_named_together_with_everything_else() -> None:
    value = {"user": {"age": float("nan"), "name": {1, 2}}, "level": "mid", "limit": datetime.date(2024, 1, 1)}
    found = {problem.path: str(problem) for problem in USER.problems(value)}
    assert set(found) == {"/user/age", "/user/name", "/level", "/limit"}
    assert "expected an integer, got NaN" in found["/user/age"]
    assert "type set" in found["/user/name"]


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle += [cycle, {"a": cycle}]
    return cycle


def _laughs() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


class _Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


HOSTILE: list[Any] = [
    _cycle(),
    _laughs(),
    _deep(),
    {1: 2},
    {"a": {(1, 2): _Hostile()}},
    _Hostile(),
    object(),
    b"bytes",
    "\ud800",
    {"\ud800": 1},
    10**5000,
    [10**5000, -(10**5000)],
    "x" * 1_000_000,
    ["x"] * 10_000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_no_value_makes_it_raise_or_talk_at_length(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "_MAX_NODES", 20_000)  # as with its real value, only sooner
    for schema in (USER, Schema({"type": "array", "items": {"type": "boolean"}}), Schema(False)):
        assert schema.problems(value)
        answer = validate_json(value, schema)
        assert answer != "valid"
        assert len(answer) < 30_000
    Schema({}).problems(value)
    validate_json({"x": value}, USER)


@given(st.recursive(st.none() | st.floats() | st.text() | st.binary() | st.integers(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner)))  # fmt: skip
def test_any_value_is_judged(value: Any) -> None:
    for schema in (USER, Schema({})):
        for problem in schema.problems(value):
            assert str(problem).startswith("At path '/")
            assert len(problem.got) < 400


@pytest.mark.parametrize(
    "schema", [{"type": "strin"}, {"$ref": "#/$defs/none"}, {"$ref": "http://example.org/x.json"}, {"pattern": "(("}, 3]
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema: Any) -> None:
    with pytest.raises(SchemaError):
        Schema(schema)


def test_a_schema_does_not_follow_changes_of_its_source() -> None:
    source: dict[str, Any] = {"type": "integer"}
    schema = Schema(source)
    source["type"] = "string"
    assert schema.problems("x")


def test_many_problems_are_listed_up_to_a_limit() -> None:
    schema = Schema({"items": {"type": "integer"}})
    text = describe(schema.problems(["x"] * 500))
    assert text.count("\n") == 50
    assert "450 more" in text


# ---------------------------------------------------------------------- the tool in the REPL


def test_validate_json_says_valid() -> None:
    assert validate_json(BOB, USER) == "valid"
    assert validate_json(json.dumps(BOB), USER) == "valid"


def test_validate_json_says_every_problem_the_schema_the_submission_and_what_next() -> None:
    value = {"user": {"age": "abc"}}
    answer = validate_json(value, json.loads(USER.text))
    for line in lines(value):
        assert line in answer
    assert "2 problems" in answer
    assert USER.text in answer
    assert json.dumps(value) in answer
    assert "SUBMIT" in answer


def test_validate_json_explains_a_text_that_is_no_json() -> None:
    assert "cannot be read" in validate_json('{"user": oops}', USER)


def test_submit_is_answered_in_the_same_words() -> None:
    value = {"user": {}}
    words = refusal(value, USER, USER.problems(value), subject="SUBMIT")
    assert words.startswith("SUBMIT was not accepted")
    assert words.splitlines()[1:] == validate_json(value, USER).splitlines()[1:]


@pytest.mark.parametrize("width", [2, 12, 100])
def test_a_schema_that_refers_to_itself_many_times_is_described_at_once(width):
    began = time.thread_time()
    schema = Schema({"anyOf": [{"$ref": "#"}] * width})
    assert schema.takes_type_of("text")
    assert time.thread_time() - began < 0.2


def test_the_words_for_a_schema_have_a_limit():
    names = [f"a{at}" for at in range(60)]
    definitions = {
        name: {"anyOf": [{"const": name}, *({"$ref": f"#/$defs/{other}"} for other in names if other != name)]}
        for name in names
    }
    began = time.thread_time()
    schema = Schema({"$defs": definitions, "$ref": "#/$defs/a0"})
    assert len(schema.root_words) < 3_000
    assert time.thread_time() - began < 0.5
