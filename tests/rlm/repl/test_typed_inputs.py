"""Inputs that JSON has no form for: in the code, in the evidence, and in a run that is resumed."""

from __future__ import annotations

from datetime import date

import dspy
import pytest

import rlm
from rlm.models.scripted import scripted_lm
from rlm.results import Extracted, Submitted
from rlm.traces import find

SIGNATURE = "start: date, end: date, seen: set[int], pair: tuple[int, str] -> days: int, kinds: list[str]"
GIVEN = {"start": date(2026, 11, 18), "end": "2026-12-01", "seen": {3, 1}, "pair": (7, "x")}
SUBMIT = """```python
SUBMIT(days=(end - start).days + len(seen & {1}), kinds=[type(seen).__name__, type(pair).__name__])
```"""


def predict(replies, pool, **options):
    return rlm.Predict(SIGNATURE, lm=scripted_lm(replies), pool=pool, **options)


def test_code_calculates_with_the_types_of_the_signature(pool):
    result = predict([SUBMIT], pool).run_with_fallback(**GIVEN)
    assert isinstance(result, Submitted)
    assert (result.outputs.days, result.outputs.kinds) == (14, ["set", "tuple"])


def test_the_prompt_names_the_types(pool):
    lm = scripted_lm([SUBMIT])
    rlm.Predict(SIGNATURE, lm=lm, pool=pool).run_with_fallback(**GIVEN)
    prompt = "\n".join(str(turn["content"]) for turn in lm.history[0]["messages"])
    assert "- start (date): datetime.date(2026, 11, 18)" in prompt
    assert "- seen (set, 2 items): {1, 3}" in prompt


def test_a_run_with_such_inputs_is_resumed_with_their_types(pool, tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.setenv("RLM_TRACE", "on")
    with dspy.context(track_usage=False):
        ended = predict(["```python\nx = 1\n```", "no", "no", "no"], pool, max_iterations=1).run_with_fallback(**GIVEN)
    assert find(ended.run_id).inputs()["start"] == "2026-11-18"
    result = predict([SUBMIT], pool, max_iterations=2).resume(ended.run_id)
    assert isinstance(result, Submitted), result
    assert (result.outputs.days, result.iterations) == (14, 2)


def test_an_answer_that_repeats_a_date_of_the_inputs_is_no_evidence(pool):
    lm = scripted_lm(["```python\ncopied = str(start)\n```", '{"day": "2026-11-18"}'])
    ask = rlm.Predict("start: date -> day: date", lm=lm, pool=pool, max_iterations=1)
    result = ask.run_with_fallback(start=GIVEN["start"])
    assert isinstance(result, Extracted)
    assert result.outputs.day == GIVEN["start"]
    assert result.confidence <= 0.8


@pytest.mark.parametrize("given", [{"a", "b"}, ["a", "b"]])
def test_a_list_for_a_set_arrives_as_a_set(pool, given):
    lm = scripted_lm(["```python\nSUBMIT(n=len(names) + isinstance(names, set))\n```"])
    result = rlm.Predict("names: set[str] -> n: int", lm=lm, pool=pool).run_with_fallback(names=given)
    assert result.outputs.n == 3
