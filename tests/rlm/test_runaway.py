"""Numbers whose digits ran away are refused, whichever way an answer was parsed."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from rlm.extraction import ExtractionOrchestrator, MaxRetriesExceeded, ParseError, Schema, parse
from rlm.signatures.validation import repeats, runaway_problems

RUNAWAY = "1114634454" + ("123" * 25)[:73]


@pytest.mark.parametrize("digits", [RUNAWAY, "7" * 30, "12" * 9, "9" + "0" * 36, "31415926535" + "8979" * 4])
def test_digits_that_repeat_up_to_the_end_are_seen(digits: str) -> None:
    assert repeats(digits)
    assert [problem.path for problem in runaway_problems({"a": [1, -int(digits)], "b": 2})] == ["/a/1"]


@pytest.mark.parametrize(
    "number",
    [0, 7, 111111, 123123123123, 2**64, 2**200, math.factorial(100), 10**18, 10**30, 1234567890123456789012, True],
)
def test_numbers_that_people_write_are_not(number: int) -> None:
    assert runaway_problems([number]) == ()


def test_a_number_in_the_question_was_copied() -> None:
    assert runaway_problems(int(RUNAWAY), known=f"The serial number is {RUNAWAY}.") == ()


def _extract(answer: str, prompt: str = "How many?", kind: str = "integer") -> Any:
    async def model(_: str) -> str:
        return answer

    schema = {"type": "object", "properties": {"answer": {"type": kind}}, "required": ["answer"]}
    return asyncio.run(ExtractionOrchestrator(schema, max_attempts=2).extract(model, prompt))[0]


def test_an_extraction_refuses_a_runaway_number_and_says_why() -> None:
    with pytest.raises(MaxRetriesExceeded) as error:
        _extract(json.dumps({"answer": int(RUNAWAY)}))
    last = error.value.history[-1]
    assert (last.failure, last.problems[0].path) == ("schema", "/answer")
    assert "83 digits, which repeat" in error.value.history[0].feedback


def test_an_extraction_copies_a_number_of_the_history() -> None:
    assert _extract(json.dumps({"answer": int(RUNAWAY)}), f"serial = {RUNAWAY}") == {"answer": int(RUNAWAY)}


@pytest.mark.parametrize("answer", [f'{{"answer": {RUNAWAY}.5}}', f"{{answer: {RUNAWAY}.5,}}"])
def test_a_runaway_float_is_not_parsed(answer: str) -> None:
    with pytest.raises(ParseError):
        parse(answer, Schema({"type": "object", "properties": {"answer": {"type": "number"}}}))
