"""Two steps inside a run: both calls are counted, on record and on the budget; what fails is one answer."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest

import rlm
from rlm import TwoStepAdapter
from rlm.budgets import FallbackTrigger
from rlm.results import Extracted, Submitted
from rlm.traces import find
from tests.support.adapter_models import model

WORDS = "I count forty-one of them."


def run(code: str, sub: Any, small: Any, **options: Any) -> tuple[Any, list[Any]]:
    """A run of one cell whose typed questions go through two steps: its result, and what was told of it."""
    events: list[Any] = []
    predict = rlm.Predict(
        "q -> n",
        sub_lm=sub,
        adapter=TwoStepAdapter(small),
        observe=events.append,
        **options,
    )
    with dspy.context(lm=model(f"```python\n{code}\n```", name="scripted/main")):
        return predict.run_with_fallback(q="how many?"), events


def asked(events: list[Any]) -> list[tuple[str, str, str | None]]:
    told = [event.data for event in events if event.kind == "model_asked"]
    return [(one["role"], one["model"], one.get("step")) for one in told]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))


def test_both_steps_are_on_record_in_order_with_what_they_used() -> None:
    sub, small = model(WORDS, name="scripted/sub"), model('{"answer": 41}', name="scripted/small")
    result, events = run("SUBMIT(n=str(llm_query('how many?', type=int) + 1))", sub, small)
    assert result.outputs.n == "42"
    assert asked(events)[1:] == [("sub", "scripted/sub", "answer"), ("sub", "scripted/small", "extraction")]
    answers = [event.data for event in events if event.kind == "model_answered"][1:]
    assert [one["text"] for one in answers] == [WORDS, '{"answer": 41}']
    assert all(one["tokens_in"] > 0 for one in answers)
    assert result.usage.llm_calls == 2
    assert result.usage.model_calls == 3
    kept = json.dumps([event.data for event in find(result.run_id).events() if event.kind == "model_asked"])
    assert "scripted/small" in kept
    assert WORDS in kept  # what the extraction model was given to read


def test_the_second_step_is_refused_where_the_budget_ends() -> None:
    sub, small = model(WORDS, WORDS), model('{"answer": 41}')
    code = "try:\n    llm_query('how many?', type=int)\nexcept Exception as error:\n    SUBMIT(n=type(error).__name__)"
    result, _ = run(code, sub, small, trigger=FallbackTrigger(max_llm_calls=1))
    assert result.outputs.n == "BudgetExceeded"
    assert len(sub.engine.requests) == 1
    assert small.engine.requests == []


def test_an_extraction_that_fails_is_an_exception_with_its_tag_in_the_cell() -> None:
    sub, small = model(WORDS), model(*["no idea"] * 3)
    code = "try:\n    llm_query('how many?', type=int)\nexcept Exception as error:\n    SUBMIT(n=str(error))"
    result, _ = run(code, sub, small)
    assert isinstance(result, Submitted)
    assert "extraction_parse_failed" in result.outputs.n


def test_in_a_batch_one_that_fails_does_not_sink_the_rest() -> None:
    sub, small = model(WORDS, WORDS), model(*["no idea"] * 3, '{"answer": 41}')
    code = "got = llm_batch(['how many?', 'and now?'], max_parallel=1, type=int)\nSUBMIT(n=f'{got} {llm_errors()}')"
    result, _ = run(code, sub, small)
    assert isinstance(result, Submitted)
    assert result.outputs.n.startswith("[None, 41] {'0': ")
    assert "extraction_parse_failed" in result.outputs.n


def test_without_an_extraction_model_the_cell_is_told_what_to_set() -> None:
    sub = model(WORDS)
    code = "try:\n    llm_query('how many?', type=int)\nexcept Exception as error:\n    SUBMIT(n=str(error))"
    result, _ = run(code, sub, None)
    assert "extraction_lm_not_configured" in result.outputs.n
    assert sub.engine.requests == []


def test_the_extraction_of_a_run_has_both_steps_on_record() -> None:
    words, small = model("There were forty.", name="scripted/words"), model('{"n": "40", "extraction_notes": null}')
    once = FallbackTrigger(max_iterations=1)
    result, events = run("x = 40\nprint(x)", None, small, extraction_lm=words, trigger=once)
    assert isinstance(result, Extracted)
    assert result.outputs.n == "40"
    assert [(role, step) for role, _, step in asked(events)[1:]] == [
        ("extraction", "answer"),
        ("extraction", "extraction"),
    ]
    assert result.usage.model_calls == 3


def test_a_question_that_could_not_be_asked_is_on_record_as_failed() -> None:
    from dspy.lm15 import AuthError

    sub = model(AuthError("wrong key"), name="scripted/sub")
    code = "try:\n    llm_query('how many?', type=int)\nexcept Exception as error:\n    SUBMIT(n=str(error))"
    result, events = run(code, sub, model())
    assert "key" in result.outputs.n
    (failed,) = [event.data for event in events if event.kind == "model_failed"]
    assert (failed["role"], failed["error_kind"]) == ("sub", "key")
    assert asked(events)[1] == ("sub", "scripted/sub", "")
