"""Own suites: read from JSONL, refused with the line that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlm.evals.scorers import score
from rlm.evals.suites import SuiteFileError, read_suite

GOOD: dict[str, Any] = {
    "signature": "doc: str -> total: int, payer: str",
    "inputs": {"doc": "Ida paid 4 coins, then 5."},
    "expected": {"total": 9, "payer": "Ida"},
    "scoring": {"total": "number"},
}
LIST: dict[str, Any] = {
    "signature": "doc: str -> all: list[int]",
    "inputs": {"doc": "4, 5"},
    "expected": {"all": [4, 5]},
}


def written(path: Path, *lines: Any) -> Path:
    file = path / "mine.jsonl"
    file.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines) + "\n")
    return file


def test_samples_are_read_and_scored(tmp_path: Path) -> None:
    first, second = read_suite(
        written(tmp_path, GOOD, "", {**GOOD, "id": "two", "instructions": "Add up.", "meta": {"a": 1}})
    )
    assert (first.id, first.suite, first.length) == ("mine-0", "mine", 25)
    assert first.scoring == {"total": "number", "payer": "exact"}
    assert score(first, {"total": 10, "payer": "ida"}).total == pytest.approx(0.875)
    assert (second.id, second.instructions, second.meta) == ("two", "Add up.", {"a": 1})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", r"line 2: not JSON: .* column 2"),
        ("[1]", r"line 2: a sample must be a JSON object, not list"),
        ({"inputs": {}, "expected": {}}, r"line 2: signature missing"),
        ({**GOOD, "answer": 1}, r"line 2: unknown: answer"),
        ({**GOOD, "expected": [1]}, r"line 2: expected must be a JSON object, not list"),
        ({**GOOD, "signature": 5}, r"line 2: signature must be a text, not int"),
        ({**GOOD, "signature": "doc: string -> total"}, r"line 2: signature: unknown type 'string'"),
        ({**GOOD, "inputs": {}}, r"line 2: inputs: .*doc"),
        ({**GOOD, "expected": {"total": "nine", "payer": "Ida"}}, r"line 2: expected: .*total"),
        ({**GOOD, "scoring": {"total": "f1"}}, r"line 2: scoring: total: there is no scorer 'f1'; scorers are exact"),
        ({**GOOD, "scoring": {"sum": "number"}}, r"line 2: scoring: 'sum' is no output; outputs are total, payer"),
        (
            {**GOOD, "scoring": {"total": "pairs"}},
            r"line 2: scoring: total: 'pairs' is for lists of pairs; the expected",
        ),
        ({**GOOD, "scoring": {"payer": "number"}}, r"line 2: scoring: payer: 'number' is for numbers; the expected"),
        ({**LIST, "scoring": {"all": "pairs"}}, r"line 2: scoring: all: 'pairs' is for lists of pairs; the expected"),
        ({**GOOD, "id": "mine-0"}, r"line 2: the id 'mine-0' is taken by line 1"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, line: Any, said: str) -> None:
    with pytest.raises(SuiteFileError, match=rf"(?s)mine\.jsonl, {said}"):
        read_suite(written(tmp_path, GOOD, line))


@pytest.mark.parametrize("scorer", ["exact", "set", "items", "values"])
def test_scorers_that_fit_are_taken(tmp_path: Path, scorer: str) -> None:
    (sample,) = read_suite(written(tmp_path, {**LIST, "scoring": {"all": scorer}}))
    assert score(sample, {"all": [4, 5]}).total == 1


def test_several_bad_lines_are_said_at_once_in_words_of_the_file(tmp_path: Path) -> None:
    bad = {**GOOD, "expected": {"total": "nine", "payer": "Ida"}}
    with pytest.raises(SuiteFileError) as found:
        read_suite(written(tmp_path, bad, GOOD, "{not", {**GOOD, "x": 1}))
    lines = str(found.value).splitlines()
    assert [line.split(", ")[1].split(":")[0] for line in lines] == ["line 1", "line 3", "line 4"]
    assert "Task" not in lines[0]
    with pytest.raises(SuiteFileError, match=r"line 5: .*\nand 2 more$"):
        read_suite(written(tmp_path, *["{not"] * 7))


def test_a_file_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(SuiteFileError, match="cannot be read"):
        read_suite(tmp_path / "none.jsonl")
    with pytest.raises(SuiteFileError, match="no samples"):
        read_suite(written(tmp_path, ""))
