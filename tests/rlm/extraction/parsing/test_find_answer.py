"""The parser: what it reads, what it refuses, and that it never raises anything but its own error."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm.extraction import ParseError, Schema, parse
from rlm.extraction.parsing.find_answer import MAX_CHARS
from rlm.extraction.parsing.lenient_json import Unreadable, read
from tests.support.answer_corpus import PERSON, ROWS, TREE, damaged, recoverable, shape, truncated

ANYTHING = Schema({})
NUMBER = Schema({"type": "integer"})
ADA = {"name": "Ada", "age": 36, "tags": []}
ADA_TEXT = json.dumps(ADA)


def refusal(text: str, schema: Schema = PERSON, **options: Any) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(text, schema, **options)
    return caught.value


# ---------------------------------------------------------------------- the corpus


def test_spoiled_answers_are_recovered_and_never_misread() -> None:
    read_right, total = 0, Counter[str]()
    for case in recoverable(seed=20, rounds=8):
        total[case.kind] += 1
        try:
            value = parse(case.text, case.schema)
        except ParseError:
            continue
        assert value == case.value, f"{case.kind}: misread\n{case.text}"
        read_right += 1
    assert sum(total.values()) >= 700
    assert read_right / sum(total.values()) >= 0.97


def test_no_truncated_answer_is_accepted() -> None:
    for case in truncated(seed=21, count=1500):
        error = refusal(case.text, case.schema)
        assert error.kind in ("truncated", "no_json"), f"{case.kind}: {error.kind}\n{case.text}"


def test_a_damaged_answer_is_refused_or_read_in_its_old_shape() -> None:
    for case in damaged(seed=22, count=4000):
        try:
            value = parse(case.text, case.schema)
        except ParseError:
            continue
        assert shape(value) == shape(case.value), f"{case.kind}\n{case.text}"


@pytest.mark.parametrize("schema", [PERSON, TREE], ids=["person", "tree"])
def test_no_prefix_of_an_answer_is_accepted(schema: Schema) -> None:
    value = {"label": "a", "children": [{"label": "b", "children": [{"label": "c"}]}]} if schema is TREE else ADA
    text = json.dumps(value)
    for end in range(len(text)):
        refusal(text[:end], schema)
        refusal(f"```json\n{text[:end]}\n```", schema)


# ---------------------------------------------------------------------- which value counts


@pytest.mark.parametrize(
    "text",
    [
        ADA_TEXT,
        f"\ufeff{ADA_TEXT}",
        f"```json\n{ADA_TEXT}\n```",
        f"{ADA_TEXT}\n```",  # the opening fence stood in the prompt
        f'First {{"name": "Bob", "age": 1, "tags": []}}, no: {ADA_TEXT}',
        f'{ADA_TEXT}\nI did not use {{"colour": "red"}} or [1, 2].',
        f'<think>{{"name": "Bob", "age": 1, "tags": []}}</think>{ADA_TEXT}',
        f'{ADA_TEXT}\n<think>or {{"name": "Bob", "age": 1, "tags": []}}?</think>',
        "{'name': 'Ada', 'age': 36, 'tags': ()}",
        '{"name": """Ada""", "age": 36, "tags": []}',
        "{name: 'Ada', age: +36, tags: [],} // done",
    ],
)
def test_the_last_answer_is_read(text: str) -> None:
    assert parse(text, PERSON) == ADA


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_json"),
        ("I could not find it.", "no_json"),
        ("The set {x | x > 0} and [1].", "no_json"),
        ("```json\n", "truncated"),
        (f"{ADA_TEXT}\nOn second thought:\n```json\n", "truncated"),
        (f"{ADA_TEXT}<think>wait", "truncated"),
        ('{"name": "Ada", "age": 36, "tags": [...]}', "invalid"),
        ('{"name": "Ada", "age": 36, "tags": ["a", /* ... and so on */]}', "invalid"),
        ('{"name": "Ada", "age": NaN, "tags": []}', "invalid"),
        ('{"name": "Ada", "age": 1, "age": 2, "tags": []}', "invalid"),
        ('{"name": string, "age": integer, "tags": []}', "invalid"),
        ('{"name": "Ada", "age": 36, "tags": ["a" "b"]}', "invalid"),
        ('{"name": "Ada", "age": 1,000, "tags": []}', "invalid"),
        ('{"name": "he said "yes", and left", "age": 1, "tags": []}', "invalid"),
        ('{"name": "Ada", "age": 36, "tags": []}, "home": {"city": "x"}}', "invalid"),
        (f"[{ADA_TEXT}, {ADA_TEXT}]", "invalid"),
        (f'{ADA_TEXT}\nCorrected: {{"name": "Ada", "age": "old", "tags": []}}', "invalid"),
        (f'{ADA_TEXT}\nCorrected: {{"name": "Ada", "age": oops, "tags": []}}', "invalid"),
    ],
)
def test_what_is_not_certain_is_refused(text: str, kind: str) -> None:
    assert refusal(text).kind == kind


def test_an_inner_object_is_never_taken_for_the_answer() -> None:
    refusal('{"label": oops, "children": [{"label": "inner"}]}', TREE)
    refusal('{"label": "a", "children": [{"label": "inner"}, oops]}', TREE)


def test_a_cut_model_is_refused_even_if_its_text_is_whole() -> None:
    error = refusal(ADA_TEXT, truncated=True)
    assert error.kind == "truncated"
    assert error.best == ADA


def test_an_invalid_answer_comes_with_its_problems() -> None:
    error = refusal('{"name": "Ada", "age": "old"}')
    assert error.best == {"name": "Ada", "age": "old"}
    assert {problem.path for problem in error.problems} == {"/tags", "/age"}


def test_the_place_where_reading_stopped_is_named() -> None:
    assert "line 2, column 9" in refusal('{"name": "Ada",\n "age": x,\n "tags": []}').message


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("42", NUMBER, 42),
        ("```\n42\n```", NUMBER, 42),
        ("Let me see.\nAnswer: 42", NUMBER, 42),
        ("It is\nTrue", Schema({"type": "boolean"}), True),
        ("Result: 'x'", Schema({"type": "string"}), "x"),
        ("null", Schema({"type": ["integer", "null"]}), None),
        ("So: [{'id': 1}] as in [1].", ROWS, [{"id": 1}]),
        ('A draft [{"id": 1}], but none is right: []', ROWS, []),
    ],
)
def test_lists_and_lone_values_are_read_where_the_schema_wants_them(text: str, schema: Schema, value: Any) -> None:
    assert parse(text, schema) == value


def test_a_number_in_prose_is_no_answer() -> None:
    assert refusal("There are 42 of them.", NUMBER).kind == "no_json"


def test_a_tag_inside_a_string_is_part_of_the_string() -> None:
    value = ADA | {"name": "<think>a</think> b"}
    assert parse("Here: " + json.dumps(value), PERSON) == value


# ---------------------------------------------------------------------- properties

TEXT = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
JSONISH = st.text(alphabet=st.sampled_from(list("{}[]()\"'“”:,\\/*#-+.0123eEntfNT \n`~<>aü")), max_size=60)
PIECES = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", '"', "'", '"name"', ":", ",", "1", "null", "```json\n", "```", "<think>", "</think>", "//",
         "/*", "*/", "#", "\n", " ", "...", "\\", "\\u12", '"""', ADA_TEXT, "“", "”", "NaN", "1e999", "9" * 5000]
    )
    | st.text(max_size=3),
    max_size=25,
).map("".join)  # fmt: skip


@given(st.text() | JSONISH | PIECES, st.sampled_from([PERSON, TREE, ROWS, ANYTHING, NUMBER]), st.booleans())
@example('{"a": "\ud800"}', ANYTHING, False)
def test_only_a_parse_error_is_raised_and_only_accepted_values_returned(text: str, schema: Schema, cut: bool) -> None:
    try:
        value = parse(text, schema, truncated=cut)
    except ParseError:
        return
    assert not cut
    assert schema.problems(value) == ()


@given(JSON)
def test_strict_json_is_read_as_it_is(value: Any) -> None:
    assert parse(json.dumps(value), ANYTHING) == value


@given(JSON, st.booleans())
def test_the_tolerant_reader_reads_strict_json_the_same(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read(text, 0, strict_first=False) == (json.loads(text), len(text))


@given(JSONISH | PIECES)
def test_strict_and_tolerant_reading_agree(text: str) -> None:
    try:
        strict = json.loads(text, parse_constant=float)
    except ValueError:
        return
    try:
        value, _ = read(text.strip(), 0, strict_first=False)
    except Unreadable:
        return
    assert value == strict


@given(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4), st.data())
def test_no_cut_object_is_ever_read(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    end = data.draw(st.integers(0, len(text) - 1))
    refusal(text[:end], Schema({"type": "object"}))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


@given(JSONISH.filter(lambda text: "\\" not in text) | PIECES.filter(lambda text: "\\" not in text))
def test_every_string_that_is_returned_stands_in_the_text(text: str) -> None:
    try:
        value = parse(text, ANYTHING)
    except ParseError:
        return
    assert all(part in text for part in _texts(value))


# ---------------------------------------------------------------------- hostile input


@pytest.mark.parametrize(
    "piece",
    ["[", "{", '{"a":', '"', "'", '["', "{'", "[/*", "[//", "<think>", "<think></think>", "```\n", "\\", "[]",
     '{"a":1}', '{"name":x}', "{a:", "[1,", "{ ", "['a'a", '[ "b" ', "[1", '["""', '["\\u', "{“", "[{",
     "\x00", "\n", "}"],
)  # fmt: skip
def test_much_nonsense_is_refused_in_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        started = time.process_time()
        refusal(piece * (size // len(piece)))
        return time.process_time() - started

    small, large = seconds(MAX_CHARS // 32), seconds(MAX_CHARS // 4)
    assert large < max(1.0, 30 * small), "grows faster than the text"
    assert large < 5


def test_an_answer_beyond_the_limit_is_refused() -> None:
    assert refusal(" " * (MAX_CHARS + 1)).kind == "invalid"


def test_deep_nesting_is_an_error_of_its_own() -> None:
    error = refusal("x " + '{"label": "a", "children": [' * 500 + "]}" * 500, TREE)
    assert "deep" in " ".join([error.message, *map(str, error.problems)])
    assert refusal("[" * 100_000 + "]" * 100_000, ANYTHING).kind in ("invalid", "truncated")
