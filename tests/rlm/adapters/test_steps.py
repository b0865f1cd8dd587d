"""A run whose steps and extraction go through an adapter: whatever its form is, a step is a thought and code."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

import rlm
from rlm import FallbackTrigger, OutlinesAdapter, TwoStepAdapter
from rlm.results import Extracted, Failed, Submitted
from rlm.traces import find
from tests.support.adapter_models import ConstrainedLM, model


def in_chat(thought: str, code: str) -> str:
    return f"[[ ## thought ## ]]\n{thought}\n\n[[ ## code ## ]]\n{code}\n\n[[ ## completed ## ]]"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))


def run(adapter: Any, *replies: str, extraction: Any = None, most: int = 5) -> tuple[Any, Any]:
    lm = model(*replies, name="scripted/main")
    predict = rlm.Predict(
        "q -> n: int", adapter=adapter, trigger=FallbackTrigger(max_iterations=most), extraction_lm=extraction
    )
    with dspy.context(lm=lm):
        return predict.run_with_fallback(q="how many?"), lm


def test_steps_are_requested_and_read_in_the_adapters_form() -> None:
    result, lm = run(dspy.ChatAdapter(), in_chat("I look.", "x = 40\nprint(x)"), in_chat("Done.", "SUBMIT(n=x + 1)"))
    assert isinstance(result, Submitted)
    assert result.outputs.n == 41
    assert "`[[ ## thought ## ]]`, then `[[ ## code ## ]]`" in lm.engine.prompt(0)


def test_what_was_said_before_is_in_the_adapters_form_too_and_the_prompt_only_grows() -> None:
    _, lm = run(
        dspy.ChatAdapter(), in_chat("I look.", "print(6 * 7)"), in_chat("So.", "print(1)"), in_chat("", "SUBMIT(n=1)")
    )
    second, third = ([(one.role, one.text) for one in request.messages] for request in lm.engine.requests[1:])
    assert second[1] == ("assistant", in_chat("I look.", "print(6 * 7)") + "\n")
    assert "42" in second[2][1]
    assert third[:2] == second[:2]


def test_json_steps() -> None:
    result, _ = run(dspy.JSONAdapter(), '{"thought": "I know.", "code": "SUBMIT(n=7)"}')
    assert result.outputs.n == 7


def test_a_code_block_is_a_step_whatever_was_requested() -> None:
    result, lm = run(dspy.ChatAdapter(), "I know.\n```python\nSUBMIT(n=7)\n```")
    assert result.outputs.n == 7
    assert len(lm.engine.requests) == 1


def test_code_in_a_fence_inside_a_field_is_code() -> None:
    result, _ = run(dspy.ChatAdapter(), in_chat("I know.", "```python\nSUBMIT(n=7)\n```"))
    assert result.outputs.n == 7


def test_an_answer_that_the_adapter_cannot_read_spends_an_iteration_and_is_told() -> None:
    result, lm = run(dspy.ChatAdapter(use_json_adapter_fallback=False), "Hm.", in_chat("Ah.", "SUBMIT(n=7)"))
    assert (result.outputs.n, result.iterations) == (7, 2)
    assert "There was no code in your reply" in lm.engine.prompt(1)


def test_a_step_that_tier_1_cannot_give_comes_from_tier_2_and_is_counted() -> None:
    adapter = OutlinesAdapter()
    result, _ = run(adapter, "Hm.", '{"thought": "I know.", "code": "SUBMIT(n=7)"}')
    assert (result.outputs.n, result.iterations) == (7, 1)
    assert (adapter.metrics["tier1_failures"], adapter.metrics["tier2_success"]) == (1, 1)
    (told,) = [event.data for event in find(result.run_id).events() if event.kind == "tiers"]
    counts = told["by_signature"]["the next step"]
    assert (counts["tier1_failures"], counts["tier2_success"], counts["unanswered"]) == (1, 1, 0)
    assert 0 < counts["tier1_tokens_out"] < counts["tier2_tokens_out"]


def test_both_calls_of_a_step_are_paid_for() -> None:
    result, lm = run(OutlinesAdapter(), "Hm.", '{"thought": "I know.", "code": "SUBMIT(n=7)"}')
    sizes = [sum(len(one.text or "") for one in request.messages) // 4 for request in lm.engine.requests]
    assert result.usage.tokens_in == sum(sizes)
    assert result.usage.model_calls == 2


def test_a_further_call_of_any_adapter_is_refused_where_the_budget_ends() -> None:
    sub = model("nonsense", '{"answer": 3}', name="scripted/sub")
    code = "try:\n    llm_query('how many?', type=int)\nexcept Exception as error:\n    SUBMIT(n=len(str(error)))"
    lm = model(in_chat("I ask.", code), name="scripted/main")
    predict = rlm.Predict(
        "q -> n: int", adapter=dspy.ChatAdapter(), sub_lm=sub, trigger=FallbackTrigger(max_llm_calls=1)
    )
    with dspy.context(lm=lm):
        result = predict.run_with_fallback(q="how many?")
    assert isinstance(result, Submitted)
    assert (len(sub.engine.requests), result.usage.llm_calls) == (1, 1)


def test_a_model_that_uses_its_own_words_is_asked_plainly() -> None:
    result, lm = run(TwoStepAdapter(model()), "I know.\n```python\nSUBMIT(n=7)\n```")
    assert result.outputs.n == 7
    assert "[[ ##" not in lm.engine.prompt(0)


def test_a_model_that_runs_here_keeps_its_own_form_and_begins_at_tier_3() -> None:
    adapter, lm = OutlinesAdapter(), ConstrainedLM("I know.\n```python\nSUBMIT(n=7)\n```")
    with dspy.context(lm=lm):
        assert rlm.Predict("q -> n: int", adapter=adapter).run_with_fallback(q="how many?").outputs.n == 7
    assert "[[ ##" not in lm.engine.prompt(0)
    counts = adapter.metrics.by_signature["the next step"]
    assert (counts["tier3_success"], counts["start_tier"]) == (1, 3)


def test_a_model_that_is_down_ends_the_run_without_losing_anything() -> None:
    from dspy.lm15 import TransportError

    result, _ = run(dspy.ChatAdapter(), in_chat("I look.", "x = 40"), *[TransportError("no route")] * 20)
    assert isinstance(result, Failed)
    assert "could not be asked" in result.reason
    assert [entry.code for entry in result.history] == ["x = 40"]


def test_the_extraction_goes_through_the_adapter() -> None:
    said = "[[ ## n ## ]]\n40\n\n[[ ## extraction_notes ## ]]\nread off x\n\n[[ ## completed ## ]]"
    small = model(said, name="scripted/extraction")
    result, _ = run(dspy.ChatAdapter(), in_chat("I look.", "x = 40\nprint(x)"), extraction=small, most=1)
    assert isinstance(result, Extracted)
    assert (result.outputs.n, result.extraction_notes) == (40, "read off x")
    assert "[[ ## n ## ]]" in small.engine.system(0)


def test_an_extraction_that_the_adapter_cannot_read_is_requested_again() -> None:
    small = model(
        "forty", '{"n": 40}', "[[ ## n ## ]]\n40\n\n[[ ## extraction_notes ## ]]\nnull\n\n[[ ## completed ## ]]"
    )
    adapter = dspy.ChatAdapter(use_json_adapter_fallback=False)
    result, _ = run(adapter, in_chat("I look.", "x = 40\nprint(x)"), extraction=small, most=1)
    assert isinstance(result, Extracted)
    assert result.outputs.n == 40
    assert len(small.engine.requests) == 2  # plain JSON is an answer whatever was asked for


def test_a_run_through_an_adapter_continues_from_its_record() -> None:
    replies = [in_chat("I look.", "x = 40\nprint(x)"), in_chat("Done.", "SUBMIT(n=x + 1)")]
    result, _ = run(dspy.ChatAdapter(), *replies)
    assert [one.code for one in find(result.run_id).iterations] == ["x = 40\nprint(x)", "SUBMIT(n=x + 1)"]
    again = rlm.Predict("q -> n: int", adapter=dspy.ChatAdapter())
    with dspy.context(lm=model(name="scripted/main")):
        assert again.resume(result.run_id).outputs.n == 41
