"""Scoring: only right values count, and by how much."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from rlm.evals.sample import Sample
from rlm.evals.scorers import SCORERS, pairs_f1, score, scorer_named


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
        ("exact", True, "true", 1.0),
        ("exact", 12345678901234567, 12345678901234568, 0.0),  # the same float
        ("exact", 12345678901234567, "12,345,678,901,234,567", 1.0),
        ("exact", 10**400, 10**400, 1.0),
        ("exact", 10**400, 1.5, 0.0),
        ("exact", 0.3, 0.1 + 0.2, 1.0),
        ("exact", 1e-7, 4e-7, 0.0),
        ("exact", 1250.0, "1,250.00", 1.0),
        ("exact", 1250, "$1,250", 0.0),
        ("exact", 12, "1,2", 0.0),
        ("exact", 7, "007", 0.0),
        ("exact", 5, "1e999999999", 0.0),
        ("exact", 5, "1" * 5000, 0.0),
        ("exact", -3, "\N{MINUS SIGN}3", 1.0),
        ("exact", "4711", "004711", 0.0),
        ("exact", "007", "7", 0.0),
        ("exact", "1,2", "12", 0.0),
        ("exact", "1_0", "10", 0.0),
        ("exact", "1.0", "1.00", 0.0),
        ("exact", "Nan", "nan", 1.0),
        ("exact", "inf", "Infinity", 0.0),
        ("exact", "'U.S.'", "U.S", 1.0),
        ("exact", "...", "", 0.0),
        ("exact", {"a": [1, "x"]}, {"a": ["1", "X."]}, 1.0),
        ("exact", {"a": 1}, {"a": 1, "b": 2}, 0.0),
        ("exact", [1, 2], [2, 1], 0.0),
        ("number", 7, "1,000,000", 0.0),
        ("number", 7, 10**400, 0.0),
        ("number", 10**400, 10**400 + 1, 0.75),
        ("number", 0.5, 10**400, 0.0),
        ("number", 7, float("inf"), 0.0),
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
        ("set", ["nan", "007"], ["007", "NaN"], 1.0),
        ("set", ["007"], ["7"], 0.0),
        ("set", ["1.0", "1"], ["1", "1"], 0.0),
        ("set", [12345678901234567], [12345678901234568], 0.0),
        ("set", [412, 7], ["7", "412"], 1.0),
        ("set", [0.3, 2], [2.0, 0.1 + 0.2], 1.0),
        ("set", [1e-7], [4e-7], 0.0),
        ("set", [10**400, 1], [1, 2], 0.0),
        ("items", ["007", 0.3], ["7", 0.1 + 0.2], 1 / 2),
        ("items", ["a", "b", "c"], ["b", "c", "d"], 2 / 3),
        ("items", [], [], 1.0),
        ("pairs", [[1, 2], [3, 4]], [[2, 1], [3, 4]], 1.0),
        ("pairs", [[1, 2], [3, 4]], [(1, 2)], 2 / 3),
        ("pairs", [[1, 2]], [[1, 2, 3]], 0.0),
        ("pairs", [[10, 9], [1, 2]], [["9", 10], ["1", "3"]], 1 / 2),
        ("values", {"id": "4711", "n": 12345678901234567}, {"id": "004711", "n": 12345678901234568}, 0.0),
        ("values", {"id": "Nan", "n": 10**400}, {"id": "Nan", "n": 0.5}, 1 / 2),
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


def test_many_pairs_are_scored_without_comparing_each_with_each() -> None:
    compared = 0

    class Counting(int):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    pairs = [[Counting(n), Counting(n + 1)] for n in range(500)]
    assert pairs_f1(pairs, [[str(n + 1), str(n)] for n in range(500)]) == 1.0
    assert pairs_f1(pairs, [[n, n + 2] for n in range(500)]) == 0.0
    assert compared < 20 * len(pairs)


def test_an_unknown_scorer_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no scorer 'fuzzy'.*exact.*pairs"):
        scorer_named("fuzzy")
    assert set(SCORERS) == {"contains", "exact", "number", "set", "items", "pairs", "values"}
