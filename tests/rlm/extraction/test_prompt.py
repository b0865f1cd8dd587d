"""The extraction prompt: everything in it, in order, within its size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.budgets import MaxIterations
from rlm.extraction.prompt import (
    ExtractFallbackInputs,
    build,
    extraction_schema,
    missing_fields,
    settle_nulls,
    split_notes,
)
from rlm.history import REPLHistoryEntry
from rlm.signatures import Field, Signature
from sandbox.results import Variable

SIGNATURE = Signature(
    "Count",
    "Count the rows.",
    (Field("doc"),),
    (
        Field("total", int, "how many rows"),
        Field("kind", str),
        Field("top", int, "", 3),
        Field("note", str | None),
    ),
)


def inputs(history: Any = (), variables: Any = None) -> ExtractFallbackInputs:
    return ExtractFallbackInputs(history, variables or {}, SIGNATURE.outputs, str(MaxIterations(20, 20)))


def entry(iteration: int, output: str = "ok") -> REPLHistoryEntry:
    return REPLHistoryEntry(iteration, f"step {iteration}", f"print({iteration})", output, True)


def variable(name: str, value: Any) -> Variable:
    return Variable(name, type(value).__name__, None, repr(value)[:200], value, True)


RICH = inputs(
    [entry(1, "32 rows"), entry(2)], {"total": variable("total", 32), "doc": Variable("doc", "str", 900, "'a, b'")}
)


def test_the_prompt_has_the_seeds_sections_in_order() -> None:
    prompt = build(RICH, SIGNATURE)
    marks = [
        "20 of 20 iterations used without SUBMIT",
        "## REPL History",
        "### Iteration 1",
        "Output: 32 rows",
        "### Iteration 2",
        "## Current Variables",
        "- total (int) = 32",
        "- doc (str, size 900) = 'a, b'",
        "## Required Outputs",
        "- total (int): how many rows",
        "## Instructions",
        "give null and say why",
        "## Output Schema",
        '"total"',
        "`_extraction_notes`, a string",
    ]
    places = [prompt.find(mark) for mark in marks]
    assert -1 not in places, marks[places.index(-1)]
    assert places[:10] == sorted(places[:10])
    assert [prompt.rfind(mark) for mark in marks[10:]] == sorted(prompt.rfind(mark) for mark in marks[10:])


def test_the_schema_in_the_prompt_is_the_one_that_answers_are_held_to() -> None:
    prompt = build(RICH, SIGNATURE)
    block = prompt.split("```json\n")[1].split("\n```")[0]
    assert json.loads(block) == extraction_schema(SIGNATURE)


def test_a_run_without_history_and_variables_says_so() -> None:
    assert build(inputs(), SIGNATURE).count("(none)") == 2


def test_text_that_looks_like_a_placeholder_stays_what_it_is() -> None:
    prompt = build(inputs([entry(1, "$variables ${history} {output_schema} $$ $")]), SIGNATURE)
    assert "Output: $variables ${history} {output_schema} $$ $" in prompt


def test_the_oldest_history_is_shortened_before_the_variables() -> None:
    long = [entry(number, str(number) * 3000) for number in (1, 2, 3)]
    held = {f"v{number}": variable(f"v{number}", "v" * 500) for number in range(4)}
    prompt = build(inputs(long, held), SIGNATURE, max_chars=9_000)
    assert len(prompt) <= 9_000
    assert "3" * 3000 in prompt
    assert "1" * 3000 not in prompt
    assert prompt.count("v" * 500) == 4


def test_then_the_longest_variables_are_shortened() -> None:
    held = {"big": variable("big", "b" * 9_000), "small": variable("small", "s" * 100)}
    prompt = build(inputs([entry(1)], held), SIGNATURE, max_chars=4_000)
    assert len(prompt) <= 4_000
    assert "s" * 100 in prompt
    assert "- big (str)" in prompt
    assert "characters left out" in prompt


@given(
    st.lists(st.integers(0, 5_000), max_size=30),
    st.lists(st.integers(0, 5_000), max_size=60),
    st.integers(2_500, 40_000),
)
def test_the_prompt_fits_any_size(outputs: list[int], values: list[int], size: int) -> None:
    history = [entry(number, "x" * length) for number, length in enumerate(outputs)]
    held = {f"v{number}": variable(f"v{number}", "y" * length) for number, length in enumerate(values)}
    prompt = build(inputs(history, held), SIGNATURE, max_chars=size)
    assert len(prompt) <= size
    assert prompt.rstrip().endswith("now:")


def test_a_long_task_leaves_room_for_what_was_found_out() -> None:
    choices = Literal[tuple(f"choice number {n}" for n in range(4_000))]  # type: ignore[valid-type]
    signature = Signature(
        "Long", "Read this. " * 10_000, (Field("doc"),), (Field("total", int), Field("kind", choices))
    )
    prompt = build(replace(RICH, output_fields=signature.outputs), signature, 20_000)
    assert len(prompt) <= 20_000
    for part in ("Output: 32 rows", "- total (int) = 32", "Read this.", "choice number 0", "choice number 3999"):
        assert part in prompt


def test_a_size_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="max_chars=500 has no room"):
        build(RICH, SIGNATURE, max_chars=500)


# The answer ----------------------------------------------------------------------------------------------------------


def test_every_field_may_be_null_in_the_schema_and_has_to_be_there() -> None:
    schema = extraction_schema(SIGNATURE)
    assert schema["properties"]["total"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "how many rows",
    }
    assert schema["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema["required"] == ["total", "kind", "top", "note"]
    assert "_extraction_notes" in schema["properties"]
    assert schema["additionalProperties"] is False
    assert SIGNATURE.output_schema()["properties"]["total"] == {"type": "integer", "description": "how many rows"}


def test_notes_are_taken_out_of_the_answer() -> None:
    answer = {"total": 1, "_extraction_notes": "from the table"}
    assert split_notes(answer) == ({"total": 1}, "from the table")
    assert "_extraction_notes" in answer
    assert split_notes({"total": 1}) == ({"total": 1}, None)
    assert split_notes({"_extraction_notes": ""}) == ({}, None)
    assert split_notes({"_extraction_notes": {"total": "guess"}}) == ({}, '{"total": "guess"}')


def test_a_null_is_a_value_a_default_or_a_missing_field() -> None:
    answer = {"total": None, "kind": "a", "top": None, "note": None}
    settled, missing = settle_nulls(answer, SIGNATURE)
    assert settled == {"kind": "a", "note": None}
    assert missing == ("total",) == missing_fields(answer, SIGNATURE)
    assert missing_fields({}, SIGNATURE) == ("total", "kind")
    settled, missing = settle_nulls(answer | {"total": 5}, SIGNATURE)
    assert missing == ()
    assert SIGNATURE.outputs_to_json(SIGNATURE.check_outputs(settled)) == {
        "total": 5,
        "kind": "a",
        "top": 3,
        "note": None,
    }


def test_a_field_that_nobody_asked_for_is_left_to_the_check() -> None:
    assert settle_nulls({"total": 1, "kind": "a", "more": None}, SIGNATURE)[0]["more"] is None
