"""The extraction within the limits of the run: a part of the time, tokens and cost is kept for it."""

from __future__ import annotations

import asyncio
import math
import pickle
import time

import pytest

from rlm.budgets import BudgetExceeded, FallbackReason, FallbackTrigger, Ledger, MaxCost, MaxTokens, Timeout, Usage
from rlm.models.profile import ModelProfile
from rlm.models.scripted import AsyncScriptedEngine
from rlm.results import Extracted, Failed


class Slow(AsyncScriptedEngine):
    """Answers after a time, if ever."""

    def __init__(self, engine, seconds):
        super().__init__(engine)
        self.seconds = seconds

    async def complete(self, request):
        await asyncio.sleep(self.seconds)
        return await super().complete(request)


def slow(made, seconds):
    made.extraction.profile = ModelProfile(engine=Slow(made.extraction.profile.engine._engine, seconds))
    return made


async def test_the_whole_run_ends_within_max_duration_although_nobody_answers(make):
    made = slow(make(["while True: pass"], trigger=FallbackTrigger(max_duration=2.0), extraction=[]), 60)
    began = time.monotonic()
    result = await made.run(doc="")
    assert time.monotonic() - began < 20
    assert isinstance(result, Failed)
    assert result.cause is None
    assert "of 2 seconds used without SUBMIT (0.4 are kept for the extraction)" in result.reason
    assert "seconds that max_duration left: raise it" in result.reason


async def test_what_is_kept_is_enough_for_an_extraction_that_answers(make):
    made = make(["n = 41\nwhile True: pass"], trigger=FallbackTrigger(max_duration=4.0), extraction=['{"answer": 41}'])
    result = await slow(made, 0.3).run(doc="")
    assert isinstance(result, Extracted)
    assert isinstance(result.reason, Timeout)
    assert (result.reason.limit, result.reason.kept) == (4.0, 0.8)


async def test_the_model_reads_the_time_that_it_has_for_itself(make):
    made = make(["SUBMIT(answer=1)"], trigger=FallbackTrigger(max_duration=100))
    await made.run(doc="")
    assert "80 seconds" in made.asked()[0].messages[-1].text


def test_no_more_than_two_minutes_are_kept():
    ledger = Ledger(FallbackTrigger(max_duration=3600), clock=lambda: 0.0)
    ledger.keep_for_extraction()
    assert ledger.seconds_left() == 3480
    ledger.release_kept()
    assert ledger.seconds_left() == 3600


def test_without_a_limit_on_time_nothing_is_kept():
    ledger = Ledger(FallbackTrigger(max_duration=math.inf))
    ledger.keep_for_extraction()
    assert ledger.seconds_left() == math.inf
    assert ledger.should_trigger() is None


def test_a_child_run_keeps_its_part_of_what_its_parent_has_left():
    now = 0.0
    root = Ledger(FallbackTrigger(max_duration=100), clock=lambda: now)
    root.keep_for_extraction()
    now = 70.0  # 10 seconds are left of the 80 of the root
    child = root.child()
    child.keep_for_extraction()
    assert child.seconds_left() == pytest.approx(5.0)
    now = 75.0
    assert child.should_trigger() == Timeout(75.0, 100, 25.0)
    assert root.should_trigger() is None
    child.release_kept()
    assert child.seconds_left() == pytest.approx(5.0)


def test_a_run_that_is_resumed_keeps_half_of_what_is_left_at_most():
    ledger = Ledger(FallbackTrigger(max_duration=100), clock=lambda: 0.0, spent=Usage(seconds=90.0))
    ledger.keep_for_extraction()
    assert ledger.seconds_left() == pytest.approx(5.0)


def test_tokens_and_cost_are_kept_as_the_largest_response_took():
    ledger = Ledger(FallbackTrigger(max_tokens=1_000, max_cost_usd=1.0), clock=lambda: 0.0)
    ledger.keep_for_extraction()
    assert (ledger.remaining().tokens, ledger.remaining().cost_usd) == (800, 0.8)
    ledger.record_usage(200, 100, 0.3)
    assert (ledger.remaining().tokens, ledger.remaining().cost_usd) == (400, pytest.approx(0.4))
    ledger.record_usage(200, 200, 0.4)
    assert ledger.should_trigger() == MaxTokens(700, 1_000, 400)
    ledger.release_kept()
    assert ledger.should_trigger() is None


@pytest.mark.parametrize("size", [1_000, 4_000, 40_000])
async def test_the_prompt_of_an_extraction_is_as_long_as_the_tokens_allow(make, size):
    cells = [f"data = 'x' * {size}\nprint(data)\nn = 5"] * 30
    answers = ['{"answer": "five"}', '{"answer": "5 or so"}', '{"answer": 5}']
    made = make(cells, trigger=FallbackTrigger(max_tokens=12_000), extraction=answers)
    result = await made.run(doc="")
    assert isinstance(result.reason, MaxTokens) if isinstance(result, Extracted) else "max_tokens" in result.reason
    assert result.usage.tokens <= 12_000 or not made.asked("extraction")


async def test_a_budget_too_small_for_an_extraction_says_which_number_to_raise(make):
    made = make(["x = 1"] * 9, trigger=FallbackTrigger(max_tokens=1_200), extraction=['{"answer": 1}'])
    result = await made.run(doc="")
    assert isinstance(result, Failed)
    assert "which max_tokens leaves, do not suffice for the extraction: raise it" in result.reason
    assert made.asked("extraction") == []


@pytest.mark.parametrize("reason", [Timeout(8.0, 10.0, 2.0), MaxTokens(1, 2, 1), MaxCost(0.1, 0.2, 0.05)])
def test_what_is_kept_is_in_the_text_and_the_json_of_a_reason(reason):
    assert "kept for the extraction" in str(reason)
    assert FallbackReason.from_dict(reason.to_dict()) == reason


def test_reasons_that_were_recorded_before_are_read():
    assert FallbackReason.from_dict({"kind": "timeout", "elapsed": 3.0, "limit": 2.0}) == Timeout(3.0, 2.0)


def test_a_refused_batch_can_be_pickled():
    error = BudgetExceeded(Timeout(1.0, 1.0), "why")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason) == ("why", error.reason)
