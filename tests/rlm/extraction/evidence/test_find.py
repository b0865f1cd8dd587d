"""Where outputs are seen, and what does not count as seeing them."""

from __future__ import annotations

import datetime
import enum
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import sandbox
from rlm.extraction.evidence.features import MODEL_CALLS
from rlm.extraction.evidence.find import Findings, find_evidence, null_ratio
from rlm.history import REPLHistoryEntry
from rlm.repl.tools import RESERVED
from rlm.results import Evidence
from sandbox.results import Variable


class Color(enum.Enum):
    RED = "red"


class Person(BaseModel):
    name: str
    age: int | None = None


def held(**values: Any) -> dict[str, Variable]:
    return {
        name: Variable(name, type(value).__name__, None, repr(value), value, True) for name, value in values.items()
    }


def opaque(name: str, kind: str, preview: str, size: int | None = None) -> dict[str, Variable]:
    return {name: Variable(name, kind, size, preview)}


def cell(iteration: int, output: str, code: str = "print(result)", success: bool = True) -> REPLHistoryEntry:
    return REPLHistoryEntry(iteration, None, code, output, success)


def look(
    outputs: dict[str, Any], variables: Any = None, history: Any = (), inputs: Any = None, **options: Any
) -> Findings:
    return find_evidence(outputs, variables or {}, history, inputs, **options)


# Variables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("found = {'Hull', 'Oslo'}", ["Oslo", "Hull"]),
        ("from collections import Counter\nfound = Counter(['Hull', 'Hull', 'Oslo'])", {"Hull": 2, "Oslo": 1}),
        ("from collections import defaultdict\nfound = defaultdict(int)\nfound['Hull'] += 638", {"Hull": 638}),
        ("from collections import deque\nfound = deque(['Hull'])", ["Hull"]),
    ],
)
def test_a_collection_that_json_does_not_have_is_evidence_under_the_name_of_the_field(code: str, value: Any) -> None:
    with sandbox.Session() as session:
        session.run(code)
        variables = session.variables()
    assert look({"found": value}, variables).in_variables
    assert not look({"ports": value}, variables).in_variables
    assert not look({"found": [*value, "Riga"]}, variables).in_variables


def test_a_value_in_a_variable_is_evidence_with_its_name() -> None:
    findings = look({"answer": 42}, held(total=42, other="x"))
    assert findings.in_variables
    assert findings.evidence == (Evidence("/answer", "variable", "42", variable="total"),)
    assert not findings.in_history


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        (42, 42.0, True),
        (42, "42", True),
        (1234, "1,234", True),
        ("42", 42, True),
        (42, "around 42 rows", False),
        (42, [1, 42], True),
        (42, {"rows": {"n": 42}}, True),
        (42, list(range(1000)), False),
        (3.14, 3.14159, True),
        (42, 421, False),
        ("Paris", "PARIS ", True),
        ("Paris", "Paris is large", False),
        (datetime.date(2026, 1, 2), "2026-01-02", True),
        (Color.RED, "red", True),
        (["a1", "b1"], ["a1", "b1", "c1"], True),
        (["a1", "z1"], ["a1", "b1", "c1"], False),
        (list(range(1000)), list(range(1000)), True),
        (list(range(999)), list(range(1000)), False),
        (Person(name="Ann", age=30), {"who": "ann", "years": 30}, True),
        (Person(name="Ann", age=31), {"who": "ann", "years": 30}, False),
        ({"Paris": 3}, {"paris": 3}, True),
        ({"Paris": 3}, {"london": 3}, False),
    ],
)
def test_typed_values_are_compared_leaf_by_leaf(output: Any, value: Any, expected: bool) -> None:
    assert look({"answer": output}, held(result=value)).in_variables is expected


def test_every_field_has_to_be_found() -> None:
    assert look({"a": 11, "b": 12}, held(x=11, y=12)).in_variables
    findings = look({"a": 11, "b": 12}, held(x=11))
    assert not findings.in_variables
    assert [one.path for one in findings.evidence] == ["/a"]
    assert findings.unsupported == ("b",)


def test_a_value_in_a_large_collection_counts_only_under_its_own_key() -> None:
    many = {f"k{index}": index for index in range(500)}
    assert not look({"answer": 77}, held(rows=many)).in_variables
    assert look({"answer": 77}, held(rows=many | {"answer": 77})).in_variables


def test_a_text_of_the_same_name_may_hold_the_value_among_other_words() -> None:
    assert look({"city": "Paris"}, held(city="The city is Paris.")).in_variables
    assert not look({"city": "Paris"}, held(text="The city is Paris.")).in_variables


def test_things_without_a_plain_value_are_read_from_their_preview() -> None:
    day = datetime.date(2026, 1, 2)
    assert look({"day": day}, opaque("when", "datetime.date", repr(day))).in_variables
    assert look({"n": 32}, opaque("r", "__main__.Result", "Result(total=32)")).in_variables
    assert look({"c": Color.RED}, opaque("c", "__main__.Color", "<Color.RED: 'red'>")).in_variables
    assert not look({"n": 32}, opaque("rows", "list", "[32, 33, ...]", size=9000)).in_variables
    assert not look({"n": 32}, opaque("f", "function", "def f(n=32)")).in_variables


def test_the_variables_of_a_real_session_are_evidence(open_session: Callable[..., sandbox.Session]) -> None:
    context = "Ann has 32 apples. " * 2000
    session = open_session({"context": context})
    code = """
import datetime, decimal, dataclasses
@dataclasses.dataclass
class Result:
    total: int
result = Result(context.count("apples"))
alias, day, price = context, datetime.date(2026, 1, 2), decimal.Decimal("12.50")
people = [word for word in context[:18].split() if word.istitle()]
print("counted", result.total)
"""
    printed = session.run(code)
    outputs = {"total": 2000, "day": datetime.date(2026, 1, 2), "price": 12.5, "people": ["Ann"]}
    findings = look(outputs, session.variables(), [cell(1, printed.text, code)], {"context": context})
    assert findings.in_variables
    named = [(one.path, one.variable) for one in findings.evidence if one.kind == "variable"]
    assert named == [("/total", "result"), ("/day", "day"), ("/price", "price"), ("/people", "people")]
    assert [one.quote for one in findings.evidence if one.kind == "history"] == ["2000"]


# What says nothing by itself -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, False, None, "", [], {}, "--"])
def test_what_is_not_distinctive_counts_only_in_a_variable_of_its_name(value: Any) -> None:
    assert not look({"flag": value}, held(other=value), [cell(1, f"{value}")]).in_variables
    assert not look({"flag": value}, held(other=value), [cell(1, f"{value}")]).in_history
    assert look({"flag": value}, held(flag=value)).in_variables
    assert not look({"flag": value}, held(flag=5)).in_variables


def test_a_boolean_without_a_variable_of_its_name_is_set_aside() -> None:
    findings = look({"n": 42, "ok": True}, held(total=42), [cell(1, "42")])
    assert findings.in_variables
    assert findings.in_history


def test_a_boolean_that_its_variable_contradicts_is_not() -> None:
    assert not look({"n": 42, "ok": True}, held(total=42, ok=False)).in_variables
    assert not look({"n": 42, "ok": True}, held(total=42, ok=1)).in_variables


# Inputs --------------------------------------------------------------------------------------------------------------


def test_inputs_are_not_evidence() -> None:
    inputs = {"names": ["Ann", "Bo"], "year": 2026}
    assert not look({"who": "Ann"}, held(**inputs), inputs=inputs).in_variables
    assert not look({"who": "Ann"}, held(copy=["Ann", "Bo"]), inputs=inputs).in_variables
    assert look({"who": "Ann"}, held(found=["Ann"]), inputs=inputs).in_variables


def test_an_output_that_repeats_an_input_counts_only_in_a_variable_of_its_name() -> None:
    inputs = {"year": 2026}
    findings = look({"when": 2026}, held(y=2026), [cell(1, "2026")], inputs)
    assert (findings.in_variables, findings.in_history) == (False, False)
    assert look({"when": 2026}, held(when=2026), inputs=inputs).in_variables


# History -------------------------------------------------------------------------------------------------------------


def test_a_printed_value_is_evidence_with_iteration_and_span() -> None:
    findings = look({"answer": 1234}, history=[cell(4, "rows: 12\ntotal: 1,234.\n")])
    assert findings.in_history
    assert findings.evidence == (Evidence("/answer", "history", "1,234", iteration=4, span=(16, 21)),)


def test_the_newest_place_is_taken() -> None:
    findings = look({"answer": 42}, history=[cell(1, "42"), cell(2, "again 42")])
    assert [(one.iteration, one.span) for one in findings.evidence] == [(2, (6, 8))]


def test_recent_history_is_the_last_three_iterations_that_printed() -> None:
    silent = [cell(number, "  \n") for number in (5, 6, 7)]
    history = [cell(1, "42"), cell(2, "b"), cell(3, "c"), *silent]
    assert look({"answer": 42}, history=history).in_history
    history = [cell(1, "42"), cell(2, "b"), cell(3, "c"), cell(4, "d")]
    assert not look({"answer": 42}, history=history).in_history
    assert look({"answer": 42}, history=history, recent=4).in_history
    assert not look({"answer": 42}, history=history, recent=0).in_history


def test_values_may_stand_in_different_iterations() -> None:
    findings = look({"tags": ["ax", "bx"], "n": 42}, history=[cell(1, "ax 42"), cell(2, "bx")])
    assert findings.in_history
    assert {(one.path, one.iteration) for one in findings.evidence} == {("/tags/0", 1), ("/tags/1", 2), ("/n", 1)}


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        ("print('Paris')", "Paris", False),
        ("print(f'SUBMIT(city=\"Paris\")')", 'SUBMIT(city="Paris")', False),
        ("print(city)", "Paris", True),
        ("Paris = find()\nprint(Paris)  # Paris", "Paris", True),
        ("%%magic Paris", "Paris", False),
        ("print(city); print('Parisian')", "Paris\nParisian", True),
    ],
)
def test_what_the_code_itself_says_is_not_evidence(code: str, output: str, expected: bool) -> None:
    assert look({"city": "Paris"}, history=[cell(1, output, code)]).in_history is expected


def test_a_number_that_the_code_says_is_not_evidence() -> None:
    assert not look({"n": 42}, history=[cell(1, "42", "print(42)")]).in_history
    assert not look({"n": -42}, history=[cell(1, "-42", "print(-42)")]).in_history
    assert not look({"n": 42}, history=[cell(1, "ValueError: 42", "raise ValueError(42)", success=False)]).in_history
    assert look({"n": 42}, history=[cell(1, "42\nNameError", "print(total); x", success=False)]).in_history


def test_reasoning_and_code_are_not_searched() -> None:
    entry = REPLHistoryEntry(1, "the answer is 42", "x = 42", "done", True)
    assert not look({"n": 42}, history=[entry]).in_history


# All together --------------------------------------------------------------------------------------------------------


def test_nulls_are_counted_by_field() -> None:
    assert null_ratio({"a": None, "b": 1, "c": [None], "d": None}) == 0.5
    assert null_ratio({}) == 0.0
    assert look({"a": None, "b": 11}).null_ratio == 0.5


def test_outputs_may_be_the_typed_model() -> None:
    findings = find_evidence(Person(name="Ann", age=30), held(a="Ann", b=30), [cell(1, "Ann is 30")])
    assert findings.in_variables
    assert findings.in_history


def test_nothing_to_find_is_nothing_found() -> None:
    assert look({"a": None}) == Findings((), False, False, 1.0)
    assert look({}) == Findings((), False, False, 0.0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    json_values,
    st.text(max_size=100),
    st.text(max_size=50),
)
def test_no_outputs_variables_or_texts_make_it_fail(
    outputs: dict[str, Any], value: Any, output: str, code: str
) -> None:
    findings = look(outputs, held(x=value), [cell(1, output, code)], {"given": value})
    for one in findings.evidence:
        if one.span is not None:
            assert output[one.span[0] : one.span[1]] == one.quote


@given(st.lists(st.integers(100, 10**9) | st.text("abcdefgh", min_size=3, max_size=9), min_size=1, max_size=8))
def test_what_a_cell_computed_and_printed_is_always_found(values: list[Any]) -> None:
    findings = look({"answer": values}, held(result=values), [cell(1, f"result: {values}\n")])
    assert findings.in_variables
    assert findings.in_history


def test_large_outputs_and_variables_take_little_time() -> None:
    started = time.process_time()
    outputs = {
        "rows": [f"row number {index}" for index in range(20_000)],
        "numbers": [index / 7 for index in range(20_000)],
    }
    variables = held(**{f"v{index}": [f"s{index}", index, {"a": index}] * 15 for index in range(500)})
    history = [cell(number, "row number 5, 1.25\n" * 100_000, "x = 1\n" * 5_000) for number in (1, 2, 3)]
    findings = look(outputs, variables, history)
    assert len(findings.evidence) <= 80
    assert time.process_time() - started < 10


# What the runtime wrote ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "printed_chars"),
    [
        (
            'working\nTraceback (most recent call last):\n  File "<cell 3>", line 3, in <module>\nKeyError: 3',
            len("working"),
        ),
        ("working\n[the cell ran for more than 3 seconds]", len("working")),
        ("There is no code in this reply; 3 iterations are left.", 0),
        # Printed by the code of the cell, which had it from the runtime.
        ('working\nTraceback (most recent call last):\n  File "<cell 3>", line 3, in f\nboom', None),
        ("working\n<cell 3>:3: SyntaxWarning: invalid escape sequence", None),
        ("{'llm_calls': 3, 'seconds': 3.0, 'tokens': None, 'cost_usd': None, 'iterations': 3}", None),
    ],
)
def test_the_words_of_the_runtime_are_no_evidence(output: str, printed_chars: int | None) -> None:
    entry = REPLHistoryEntry(3, None, "work()", output, False, printed_chars=printed_chars)
    assert not look({"n": 3}, history=[entry]).evidence
    if "working" in output:
        assert look({"word": "working"}, history=[entry]).in_history


def test_what_was_printed_before_an_error_is_evidence_with_its_place() -> None:
    output = "line 7 of <cell 2>: 41\nTraceback ..."
    entry = REPLHistoryEntry(2, None, "work()", output, False, printed_chars=output.index("\nTraceback"))
    (piece,) = look({"n": 41}, history=[entry]).evidence
    assert piece.span is not None
    assert output[slice(*piece.span)] == piece.quote == "41"


def test_an_error_does_not_push_what_was_printed_out_of_the_recent_cells() -> None:
    failed = [REPLHistoryEntry(number, None, "x", "KeyError", False, printed_chars=0) for number in (2, 3, 4)]
    assert look({"n": 41}, history=[cell(1, "41"), *failed]).in_history


def test_the_model_calls_that_a_feature_counts_are_those_of_the_repl() -> None:
    offered = {name for name in RESERVED if name.startswith(("llm_", "rlm_"))}
    assert offered - {"llm_errors"} == MODEL_CALLS  # which lists the errors of `llm_batch`, and asks nobody
