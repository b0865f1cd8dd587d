"""The last LLM call of a run: what the model reads before it, and batches that would pass the limit."""

from __future__ import annotations

import pytest

from rlm.budgets import BudgetExceeded, FallbackTrigger, Ledger, MaxLLMCalls
from rlm.results import Extracted, Submitted

LAST = "The next LLM call is the last: the task ends with the cell that makes it. Call SUBMIT in the same cell"


def outputs(made):
    return [event.data["output"] for event in made.events if event.kind == "cell_ended"]


async def test_the_model_reads_that_the_next_call_is_the_last_before_it_makes_it(make):
    made = make(
        ["a = llm_query('one')", "SUBMIT(answer=len(llm_query('two')))"], trigger=FallbackTrigger(max_llm_calls=2)
    )
    result = await made.run(doc="")
    assert LAST not in made.asked()[0].messages[-1].text
    assert LAST in made.asked()[1].messages[-1].text
    assert isinstance(result, Submitted)
    assert result.llm_calls == 2


async def test_a_run_with_one_call_reads_it_with_its_task(make):
    made = make(["SUBMIT(answer=1)"], trigger=FallbackTrigger(max_llm_calls=1))
    await made.run(doc="")
    assert LAST in made.asked()[0].messages[-1].text


async def test_every_model_reads_when_its_reply_is_the_last(make):
    made = make(["x = 1", "SUBMIT(answer=x)"], trigger=FallbackTrigger(max_iterations=2))
    await made.run(doc="")
    assert "This is your last reply: call SUBMIT now." in made.last_observation()


async def test_the_rule_is_in_the_prompt(make):
    made = make(["SUBMIT(answer=1)"])
    await made.run(doc="")
    assert "It ends with the cell that makes the last LLM call: SUBMIT in that cell, too." in made.asked()[0].system


async def test_a_batch_that_would_pass_the_limit_is_refused_as_a_whole(make):
    cells = [
        "llm_query('first')\nanswers = llm_batch(list('abcd'))",
        "answers = llm_batch(list('ab'))\nSUBMIT(answer=len(answers))",
    ]
    made = make(cells, trigger=FallbackTrigger(max_llm_calls=4))
    result = await made.run(doc="")
    assert "BudgetExceeded: 4 LLM calls are needed and 3 of 4 are left: nothing was asked." in outputs(made)[0]
    assert "Ask at most 3 at once, and call SUBMIT in the same cell." in outputs(made)[0]
    assert [request.messages[0].text for request in made.asked("sub")] == ["first", "a", "b"]
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.llm_calls) == (2, 3)


async def test_a_batch_of_all_calls_that_are_left_is_made(make):
    made = make(
        ["SUBMIT(answer=sum(a is not None for a in llm_batch(list('abc'))))"], trigger=FallbackTrigger(max_llm_calls=3)
    )
    assert (await made.run(doc="")).outputs.answer == 3


async def test_a_batch_within_a_child_run_is_refused_by_the_limit_above_it(make):
    main = {
        "a sub-task": "```python\nllm_batch(list('abc'))\n```",
        "*": "```python\nrlm_query('doc -> n: int', doc='a sub-task')\n```",
    }
    made = make(
        main, trigger=FallbackTrigger(max_llm_calls=3, max_iterations=1), extraction=['{"n": 1}', '{"answer": 1}']
    )
    await made.run(doc="")
    assert any("3 LLM calls are needed and 2 of 3 are left" in output for output in outputs(made))
    assert made.asked("sub") == []


async def test_the_reason_names_the_cell_and_the_limit(make):
    made = make(["a = llm_query('one')"], trigger=FallbackTrigger(max_llm_calls=1), extraction=['{"answer": 1}'])
    result = await made.run(doc="")
    assert isinstance(result, Extracted)
    assert str(result.reason) == "1 of 1 LLM call used without SUBMIT in the same cell"
    assert result.reason.setting == "max_llm_calls"


def test_a_ledger_refuses_a_batch_without_counting_it():
    ledger = Ledger(FallbackTrigger(max_llm_calls=2))
    with pytest.raises(BudgetExceeded, match="3 LLM calls are needed and 2 of 2 are left") as caught:
        ledger.refuse_batch(3)
    assert caught.value.reason == MaxLLMCalls(0, 2)
    ledger.refuse_batch(2)
    assert ledger.usage().llm_calls == 0
    ledger.reserve_call()
    ledger.reserve_call()
    with pytest.raises(BudgetExceeded, match=r"0 of 2 are left: nothing was asked\.$"):
        ledger.refuse_batch(1)
