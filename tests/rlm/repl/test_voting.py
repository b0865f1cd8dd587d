"""The vote of small models: several scripts that do not see each other, and the answer that most of them give."""

from __future__ import annotations

import pytest

from rlm.budgets import FallbackTrigger
from rlm.results import Submitted
from rlm.traces import TraceWriter, load, recorded_run

from .test_profiles import ERRORS, outcome, script

RIGHT = script("answer = sum('ERROR' in line for line in lines)")
WRONG = script("answer = len(lines)")
OTHER = script("answer = len(doc)")
BROKEN = script("answer = missing")


@pytest.mark.parametrize(
    ("scripts", "answer", "asked"),
    [
        ([RIGHT, RIGHT, WRONG], ERRORS, 2),
        ([WRONG, RIGHT, RIGHT, RIGHT], ERRORS, 4),
        ([WRONG, RIGHT, BROKEN, RIGHT, OTHER], ERRORS, 5),
        ([OTHER, WRONG, RIGHT, BROKEN, RIGHT], ERRORS, 5),
        ([BROKEN, RIGHT, RIGHT], ERRORS, 3),
        ([RIGHT], ERRORS, 2),
    ],
    ids=["two agree", "a lead of two", "most of five", "the last two", "one that fails", "the model is gone"],
)
async def test_the_answer_that_most_scripts_give_is_that_of_the_run(make, scripts, answer, asked):
    result, requests, _ = await outcome(make, *scripts, vote=True)
    assert isinstance(result, Submitted)
    assert result.outputs.answer == answer
    assert len(requests) == asked


async def test_the_vote_is_in_the_result_and_its_features(make):
    result, *_ = await outcome(make, WRONG, RIGHT, BROKEN, RIGHT, OTHER, vote=True)
    assert result.trust == "disputed: 2 of 5"
    assert [run["iteration"] for run in result.agreement["runs"] if run.get("differs")] == [1, 5]
    features = result.features["answer"]
    assert (features["compared"], round(features["dissent"], 2), features["silent"]) == (1.0, 0.67, 0.25)
    result, *_ = await outcome(make, RIGHT, RIGHT, vote=True)
    assert result.trust == "verified: 2 of 2"
    result, *_ = await outcome(make, RIGHT, vote=False)
    assert (result.trust, result.agreement) == ("unverified", None)


async def test_the_scripts_do_not_see_each_other(make):
    _, requests, _ = await outcome(make, WRONG, RIGHT, RIGHT, RIGHT, vote=True)
    prompts = {request.messages[-1].text for request in requests}
    assert len(prompts) == 1
    assert [bool(one.config.temperature) for one in requests] == [False, True, True, True]


async def test_the_script_of_the_answer_is_the_last_that_ran(make):
    result, requests, _ = await outcome(make, RIGHT, RIGHT.replace("lines)", "lines) "), vote=True)
    assert (result.iterations, len(requests)) == (2, 2)
    result, requests, _ = await outcome(make, RIGHT, WRONG, RIGHT, BROKEN, BROKEN, vote=True)
    assert (result.outputs.answer, len(requests), result.iterations) == (ERRORS, 5, 6)
    assert result.history[-1].code == result.history[2].code
    origins = [piece for piece in result.evidence if piece.is_origin]
    assert origins
    assert all(piece.iteration in (None, 6) for piece in origins)


async def test_a_vote_ends_where_the_budget_ends(make):
    result, requests, _ = await outcome(make, WRONG, RIGHT, RIGHT, vote=True, trigger=FallbackTrigger(max_iterations=2))
    assert (len(requests), result.outputs.answer) == (2, 100)


async def test_a_replay_votes_as_the_run_did_and_asks_nobody(make, tmp_path):
    with TraceWriter(tmp_path) as writer:
        result, *_ = await outcome(make, WRONG, RIGHT, RIGHT, RIGHT, vote=True, observe=writer)
        writer.flush(10)
        past = recorded_run(load(tmp_path).run(result.run_id))
    assert len(past.iterations) == 4
    again, requests, _ = await outcome(make, vote=True, past=past)
    assert (again.outputs.answer, len(requests)) == (ERRORS, 0)


async def test_a_script_that_sets_no_output_has_no_answer(make):
    unset = script("for line in lines:\n    if 'nowhere' in line:\n        answer = 1")
    result, requests, _ = await outcome(make, WRONG, unset, RIGHT, RIGHT, RIGHT, vote=True)
    assert result.outputs.answer == ERRORS
    assert len(requests) == 5


async def test_nothing_needs_one_vote_more(make):
    nothing = script("answer = sum('nowhere' in line for line in lines)")
    result, requests, _ = await outcome(make, nothing, nothing, nothing, RIGHT, RIGHT, vote=True)
    assert (result.outputs.answer, len(requests)) == (ERRORS, 6)
    result, requests, _ = await outcome(make, nothing, nothing, nothing, nothing, RIGHT, vote=True)
    assert (result.outputs.answer, len(requests)) == (0, 4)
