"""The confidence of an extraction: the seed's formula, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.extraction.confidence import Scorer, score
from rlm.extraction.evidence.find import Findings, find_evidence
from rlm.history import REPLHistoryEntry
from sandbox.results import Variable


@pytest.mark.parametrize(
    ("variables", "history", "nulls", "expected"),
    [
        (False, False, 0.0, 0.5),
        (True, False, 0.0, 0.8),
        (False, True, 0.0, 0.7),
        (True, True, 0.0, 0.99),
        (False, False, 1.0, 0.2),
        (False, False, 0.5, 0.35),
        (True, False, 0.5, 0.65),
        (True, True, 0.5, 0.85),
        (True, True, 0.1, 0.97),
    ],
)
def test_the_formula_is_the_seeds(variables: bool, history: bool, nulls: float, expected: float) -> None:
    assert score({}, Findings((), variables, history, nulls)) == pytest.approx(expected)


@given(st.booleans(), st.booleans(), st.floats(-10, 10))
def test_it_is_never_certain_and_never_hopeless(variables: bool, history: bool, nulls: float) -> None:
    assert 0.1 <= score({}, Findings((), variables, history, nulls)) <= 0.99


def test_it_follows_from_what_a_run_left_behind() -> None:
    variables = {"total": Variable("total", "int", None, "42", 42, True)}
    printed = [REPLHistoryEntry(1, None, "print(total)", "42\n", True)]

    def confidence(outputs: dict[str, Any], held: dict[str, Variable], history: list[REPLHistoryEntry]) -> float:
        return score(outputs, find_evidence(outputs, held, history))

    assert confidence({"answer": 42}, variables, printed) == pytest.approx(0.99)
    assert confidence({"answer": 42}, variables, []) == pytest.approx(0.8)
    assert confidence({"answer": 42}, {}, printed) == pytest.approx(0.7)
    assert confidence({"answer": 43}, variables, printed) == pytest.approx(0.5)
    assert confidence({"answer": 42, "note": None}, variables, printed) == pytest.approx(0.85)
    assert confidence({"answer": None}, variables, printed) == pytest.approx(0.2)


def test_another_scorer_can_take_its_place() -> None:
    def share_of_fields(outputs: Mapping[str, Any], findings: Findings) -> float:
        return 1 - len(findings.unsupported) / len(outputs)

    scorer: Scorer = share_of_fields
    outputs = {"a": 11, "b": 12}
    held = {"x": Variable("x", "int", None, "11", 11, True)}
    assert scorer(outputs, find_evidence(outputs, held, [])) == 0.5
