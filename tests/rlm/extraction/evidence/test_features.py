"""The evidence in numbers: each says what it is named after, on hand-made runs and on a real one."""

from __future__ import annotations

from typing import Any

import pytest

from rlm.budgets import FallbackTrigger
from rlm.calibration import features_of
from rlm.extraction.evidence.features import SEARCHED, features
from rlm.extraction.evidence.find import beside_name, find_evidence, is_tentative, loop_names
from rlm.history import CallRecord, REPLHistoryEntry
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.results import Extracted, Failed, Submitted
from rlm.signatures import Signature
from sandbox.results import Variable


def variable(name: str, value: Any) -> Variable:
    return Variable(name, type(value).__name__, None, repr(value), value, True)


def look(
    outputs: dict[str, Any],
    held: dict[str, Any] | None = None,
    cells: tuple[tuple[str, str, bool], ...] = (),
    inputs: dict[str, Any] | None = None,
    **about: Any,
) -> dict[str, dict[str, float]]:
    variables = {name: variable(name, value) for name, value in (held or {}).items()}
    history = [
        REPLHistoryEntry(at, None, code, output, ok, (CallRecord("llm_query"),) if "llm_query" in code else ())
        for at, (code, output, ok) in enumerate(cells, 1)
    ]
    findings = find_evidence(outputs, variables, history, inputs or {})
    return features(outputs, findings, variables, history, inputs or {}, **about)


def true_of(found: dict[str, float]) -> set[str]:
    return {name for name, number in found.items() if number == 1.0} - {"formula", "others"}


def test_a_value_that_was_computed_and_printed() -> None:
    cells = (("weight = sum(kg)\nprint('weight:', weight)", "weight: 41230", True),)
    found = look({"weight": 41230}, {"weight": 41230}, cells)["weight"]
    assert true_of(found) == {"number", "telling", "named", "alike", "labelled", "held", "printed", "both", "late"}
    assert found["formula"] == pytest.approx(0.99)


def test_a_value_that_nothing_shows() -> None:
    assert true_of(look({"weight": 41230}, {"kg": [1, 2]})["weight"]) == {"number", "telling", "nothing"}


def test_a_variable_with_the_fields_name_that_says_otherwise() -> None:
    for held in ({"weight": 5000}, {"result": {"weight": 5000}}):
        found = look({"weight": 41230}, held)["weight"]
        assert (found["against"], found["named"]) == (1, 0)
    assert look({"weight": None}, {"weight": None})["weight"]["named"] == 1
    assert look({"lost": False}, {"result": {"lost": False}})["lost"]["named"] == 1


def test_a_guess_in_the_code_is_told_from_a_result_that_was_typed_in() -> None:
    guess = look({"weight": 41230}, {"weight": 41230}, (("weight = 41230", "", True),))["weight"]
    assert (guess["literal"], guess["guessed"], guess["named"]) == (1, 1, 1)
    cells = (("print(sum(kg))", "41230", True), ("weight = 41230", "", True))
    typed = look({"weight": 41230}, {"weight": 41230}, cells)["weight"]
    assert (typed["literal"], typed["guessed"], typed["printed"]) == (1, 0, 1)


def test_what_a_loop_left_behind_is_not_what_was_looked_for() -> None:
    loop = "for line in doc.splitlines():\n    day, kg = line.split()\n    total = total + int(kg)"
    assert loop_names(loop) == {"line", "day", "kg"}
    assert loop_names("for (") == set()
    cells = ((loop, "", True),)
    assert look({"first": "2026-01-02"}, {"day": "2026-01-02"}, cells)["first"]["leftover"] == 1
    assert look({"first": "2026-01-02"}, {"best": "2026-01-02"}, cells)["first"]["leftover"] == 0


def test_an_excerpt_of_an_input_is_told_from_a_result() -> None:
    doc = "2026-01-02 | SH-1 | Hull\n2026-01-03 | SH-2 | Kiel"
    shown = look({"port": "Hull"}, {}, (("print(doc[:24])", doc[:24], True),), {"doc": doc})["port"]
    assert (shown["excerpt"], shown["in_input"], shown["printed"]) == (1, 1, 1)
    alone = look({"port": "Hull"}, {}, (("print(best)", "Hull", True),), {"doc": doc})["port"]
    assert (alone["excerpt"], alone["in_input"]) == (0, 1)
    assert look({"port": "Hul"}, {}, (), {"doc": doc})["port"]["in_input"] == 0


def test_a_list_that_was_found_in_part() -> None:
    found = look({"ports": ["Hull", "Kiel"]}, {"best": "Hull"})["ports"]
    assert (found["incomplete"], found["held"], found["many"], found["nothing"]) == (1, 0.5, 1, 0)


def test_partial_results_that_say_so() -> None:
    assert look({"n": 417}, {"n_so_far": 417})["n"]["hedged"] == 1
    assert look({"n": 417}, {"n_all": 417})["n"]["hedged"] == 0
    assert [is_tentative(text) for text in ("approx. 40", "tmp", "template", "total", "n_partial")] == [1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("field", "value", "output", "said"),
    [
        ("late_ports", ["Hull", "Kiel"], "late ports: ['Hull', 'Kiel']", True),
        ("late_ports", ["Hull", "Kiel"], "late_ports = ['Hull']", False),
        ("lost", True, "lost: True", True),
        ("lost", True, "Lost: False, weight: 3", False),
        ("day", None, "day: None", True),
        ("n", 3, "n: 4, m: 3", False),
        ("n", 3, "{'n': 3, 'm': 4}", True),
        ("n", 3, "found 3", None),
        ("tags", [], "tags: []", True),
        ("n", 3, "n: 3\nn: 4", False),
    ],
)
def test_what_stands_beside_the_name(field: str, value: Any, output: str, said: bool | None) -> None:
    assert beside_name(field, value, [REPLHistoryEntry(1, None, "f()", output, True)]) is said


def test_what_the_code_would_print_anyway_is_no_label() -> None:
    assert beside_name("n", 417, [REPLHistoryEntry(1, None, "print('n: 417')", "n: 417", True)]) is None


def test_how_the_run_went() -> None:
    cells = (("1/0", "ZeroDivisionError", False), ("x = llm_query('?')", "", True), ("1/0", "ZeroDivisionError", False))
    found = look({"a": "x", "b": None, "c": 1}, {"c": 1}, cells, reason="timeout", attempts=3)
    assert found["a"]["errors"] == pytest.approx(2 / 3)
    assert [found["a"][name] for name in ("last_failed", "asked", "attempts", "out_of_time", "out_of_errors")] == [
        *(1, 1, 2, 1, 0)
    ]
    assert (found["a"]["others"], found["c"]["others"], found["b"]["null"], found["a"]["small"]) == (1, 0, 1, 1)


def test_values_of_any_kind_are_taken() -> None:
    odd = {
        "big": 10**400,
        "inf": float("inf"),
        "nan": float("nan"),
        "deep": {"a": [{"b": None}]},
        "none": None,
        "no": "",
    }
    found = look(odd, {"x": {"a": 1}}, (("x", "y", True),), {"doc": "text", "rows": [1, "a"]})
    assert {name: set(one) for name, one in found.items()} == {name: set(SEARCHED) for name in odd}
    assert all(isinstance(number, float) for one in found.values() for number in one.values())


async def test_an_extracted_result_carries_its_evidence_and_the_others_none(pool: Any) -> None:
    driver = RunConfig(
        Signature.of("doc: str -> weight: int, lost: bool"),
        scripted_lm(["```python\nweight = sum(map(int, doc.split()))\nprint('lost:', False)\n```"]),
        extraction_model=scripted_lm(["what?", '{"weight": 5010, "lost": false}']),
        trigger=FallbackTrigger(max_iterations=1),
        pool=pool,
    )
    result = await driver.run({"doc": "5000 10"})
    assert isinstance(result, Extracted)
    found = features_of(result)
    assert {"named", "held", "number"} <= true_of(found["weight"])
    assert {"labelled", "boolean"} <= true_of(found["lost"])
    assert found["weight"]["attempts"] == 1
    assert found["weight"]["formula"] == result.confidence
    assert features_of(Submitted(result.outputs, 1, 0)) == features_of(Failed("x")) == {}
