"""Scoring: only right values count, and by how much."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from rlm.evals.sample import Sample
from rlm.evals.scoring import SCORERS, score, scorer


def sample(expected: dict[str, Any], **scoring: str) -> Sample:
    return Sample("s-0", "s", 10, 0, "doc -> answer", "", {"doc": "x"}, expected, scoring)


@pytest.mark.parametrize(
    ("name", "expected", "given", "right"),
    [
        ("exact", "Ida Engel", " ida  engel. ", 1.0),
        ("exact", "Ida Engel", "Ida Engels", 0.0),
        ("exact", 412, "412", 1.0),
        ("exact", 412, 412.0, 1.0),
        ("exact", 1250.5, "1,250.50", 1.0),
        ("exact", True, 1, 0.0),
        ("exact", "2031-05-04", datetime.date(2031, 5, 4), 1.0),
        ("number", 7, 7, 1.0),
        ("number", 7, 8, 0.75),
        ("number", 7, 4, 0.75**3),
        ("number", 7, "five", 0.0),
        ("number", 7, float("nan"), 0.0),
        ("number", 7, True, 0.0),
        ("set", [3, 1, 2], [1, 2, 3], 1.0),
        ("set", [1, 2], [1, 2, 2], 0.0),
        ("set", ["A"], "A", 0.0),
        ("items", ["a", "b", "c"], ["b", "c", "d"], 2 / 3),
        ("items", [], [], 1.0),
        ("pairs", [[1, 2], [3, 4]], [[2, 1], [3, 4]], 1.0),
        ("pairs", [[1, 2], [3, 4]], [(1, 2)], 2 / 3),
        ("pairs", [[1, 2]], [[1, 2, 3]], 0.0),
        ("pairs", [], [[1, 2]], 0.0),
        ("pairs", [[1, 2]], [[1, 2], [1, 2], [2, 1]], 1.0),
    ],
)
def test_scorers(name: str, expected: Any, given: Any, right: float) -> None:
    assert score(sample({"answer": expected}, answer=name), {"answer": given}).total == pytest.approx(right)


RECORD = {
    "name": "Ida Engel",
    "address": {"street": "4 Falk Street", "town": "Orford"},
    "lines": [
        {"article": "bell", "quantity": 2, "price": 1.5},
        {"article": "gate", "quantity": 1, "price": 20.0},
    ],
}


def of_record(**changes: Any) -> float:
    return score(sample({"answer": RECORD}, answer="values"), {"answer": {**RECORD, **changes}}).total


def test_a_nested_record_scores_by_its_values() -> None:
    assert of_record() == 1.0
    assert of_record(lines=RECORD["lines"][::-1]) == 1.0  # lists have no order
    assert of_record(name="Ida Graf") == pytest.approx(8 / 9)
    assert of_record(lines=RECORD["lines"][:1]) == pytest.approx(6 / 9)  # three values are missing
    assert of_record(extra="x") == pytest.approx(9 / 10)  # one is made up
    assert of_record(address="4 Falk Street, Orford") == pytest.approx(7 / 9)


def test_valid_json_with_wrong_values_scores_nothing() -> None:
    wrong = {
        "name": "Nobody",
        "address": {"street": "?", "town": "?"},
        "lines": [{"article": "?", "quantity": 0, "price": 0.0}] * 2,
    }
    assert score(sample({"answer": RECORD}, answer="values"), {"answer": wrong}).total == 0.0


def test_one_shifted_item_does_not_spoil_the_others() -> None:
    lines = [{"article": f"thing{i}", "quantity": i, "price": i / 2} for i in range(6)]
    given = score(sample({"answer": lines}, answer="values"), {"answer": lines[1:]})
    assert given.total == pytest.approx(5 / 6)


def test_the_total_is_the_mean_over_the_outputs() -> None:
    both = sample({"office": "Orford", "total": 10}, office="exact", total="number")
    found = score(both, {"office": "orford", "total": 11})
    assert found.fields == {"office": 1.0, "total": 0.75}
    assert found.total == pytest.approx(0.875)


def test_what_is_not_there_scores_nothing() -> None:
    both = sample({"office": "Orford", "total": 10}, office="exact", total="number")
    assert score(both, None).total == 0.0
    assert score(both, None).fields == {"office": 0.0, "total": 0.0}
    assert score(both, {"office": "Orford"}).total == 0.5
    assert score(both, {"office": "Orford", "total": None}).total == 0.5


def test_that_there_is_none_is_an_answer() -> None:
    asked = sample({"remark": None, "total": 3})
    assert score(asked, {"remark": None, "total": 3}).fields == {"remark": 1.0, "total": 1.0}
    assert score(asked, {"remark": "made up", "total": None}).fields == {"remark": 0.0, "total": 0.0}
    assert score(asked, {"total": 3}).fields == {"remark": 0.0, "total": 1.0}


def test_an_unknown_scorer_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no scorer 'fuzzy'.*exact.*pairs"):
        scorer("fuzzy")
    assert set(SCORERS) == {"exact", "number", "set", "items", "pairs", "values"}
