"""Budgets: which limit fires, in which order, and that no interleaving of a tree of runs gets past one."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rlm.budgets import (
    BudgetExceeded,
    ExecutionState,
    FallbackReason,
    FallbackTrigger,
    Ledger,
    MaxConsecutiveErrors,
    MaxCost,
    MaxIterations,
    MaxLLMCalls,
    MaxTokens,
    Timeout,
    Usage,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# The trigger ---------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_seed() -> None:
    trigger = FallbackTrigger()
    assert (trigger.max_iterations, trigger.max_llm_calls, trigger.max_duration) == (20, 50, 300.0)
    assert (trigger.max_tokens, trigger.max_cost_usd, trigger.max_consecutive_errors) == (None, None, None)


def test_nothing_fires_below_the_limits() -> None:
    assert FallbackTrigger().should_trigger(ExecutionState()) is None
    below = ExecutionState(False, 19, 49, 299.9, tokens=10**9, cost_usd=1e6, consecutive_errors=99)
    assert FallbackTrigger().should_trigger(below) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ExecutionState(iterations=20), MaxIterations(20, 20)),
        (ExecutionState(iterations=25), MaxIterations(25, 20)),
        (ExecutionState(llm_calls=50), MaxLLMCalls(50, 50)),
        (ExecutionState(elapsed=300.0), Timeout(300.0, 300.0)),
        (ExecutionState(tokens=1000), MaxTokens(1000, 1000)),
        (ExecutionState(cost_usd=2.5), MaxCost(2.5, 2.0)),
        (ExecutionState(consecutive_errors=4), MaxConsecutiveErrors(4, 4)),
    ],
)
def test_each_limit_fires_when_it_is_reached(state: ExecutionState, reason: FallbackReason) -> None:
    trigger = FallbackTrigger(max_tokens=1000, max_cost_usd=2.0, max_consecutive_errors=4)
    assert trigger.should_trigger(state) == reason


def test_limits_are_checked_in_order() -> None:
    trigger = FallbackTrigger(1, 1, 1.0, max_tokens=1, max_cost_usd=1.0, max_consecutive_errors=1)
    state = ExecutionState(iterations=1, llm_calls=1, elapsed=1.0, tokens=1, cost_usd=1.0, consecutive_errors=1)
    fired = []
    for name in ("iterations", "llm_calls", "elapsed", "tokens", "cost_usd", "consecutive_errors"):
        fired.append(type(trigger.should_trigger(state)))
        state = dataclasses.replace(state, **{name: 0})
    assert fired == [MaxIterations, MaxLLMCalls, Timeout, MaxTokens, MaxCost, MaxConsecutiveErrors]
    assert trigger.should_trigger(state) is None


@given(st.integers(0, 99), st.integers(0, 99), st.floats(0, 999))
def test_submit_bypasses_the_fallback(iterations: int, calls: int, elapsed: float) -> None:
    state = ExecutionState(submitted=True, iterations=iterations, llm_calls=calls, elapsed=elapsed)
    assert FallbackTrigger().should_trigger(state) is None


def test_reasons_read_as_text() -> None:
    assert str(MaxIterations(20, 20)) == "20 of 20 iterations used without SUBMIT"
    assert str(MaxLLMCalls(50, 50)) == "50 of 50 LLM calls used without SUBMIT in the same cell"
    assert str(Timeout(301.27, 300.0)) == "301.3 of 300 seconds used without SUBMIT"
    assert str(MaxTokens(12000, 10000)) == "12,000 of 10,000 tokens used without SUBMIT"
    assert str(MaxCost(0.5, 0.25)) == "$0.5000 of $0.2500 spent without SUBMIT"
    assert str(MaxConsecutiveErrors(3, 3)) == "3 iterations in a row ended in an error (the limit is 3)"


@pytest.mark.parametrize(
    "reason",
    [
        MaxIterations(1, 2),
        MaxLLMCalls(1, 2),
        Timeout(1.5, 2.0),
        MaxTokens(1, 2),
        MaxCost(0.1, 0.2),
        MaxConsecutiveErrors(1, 2),
    ],
)
def test_reasons_come_back_from_a_dict(reason: FallbackReason) -> None:
    assert FallbackReason.from_dict(reason.to_dict()) == reason
    with pytest.raises(dataclasses.FrozenInstanceError):
        reason.limit = 3  # type: ignore[attr-defined]


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown reason 'bored'"):
        FallbackReason.from_dict({"kind": "bored"})


def test_a_duration_can_be_a_timedelta() -> None:
    assert FallbackTrigger(max_duration=timedelta(minutes=2)).max_duration == 120.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": -1},
        {"max_llm_calls": 1.5},
        {"max_duration": math.nan},
        {"max_tokens": True},
        {"max_iterations": None},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FallbackTrigger(**wrong)


def test_presets_are_around_the_default() -> None:
    strict, usual, lenient = FallbackTrigger.strict(), FallbackTrigger(), FallbackTrigger.lenient()
    for name in ("max_iterations", "max_llm_calls", "max_duration"):
        assert getattr(strict, name) < getattr(usual, name) < getattr(lenient, name)
    assert strict.max_consecutive_errors == 3


# The ledger ----------------------------------------------------------------------------------------------------------


def test_call_51_is_refused() -> None:
    ledger = Ledger()
    for _ in range(50):
        ledger.reserve_call()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve_call()
    assert caught.value.reason == MaxLLMCalls(50, 50)
    assert ledger.usage().llm_calls == 50
    assert ledger.should_trigger(iterations=1) == MaxLLMCalls(50, 50)


def test_call_51_is_refused_among_300_threads_of_a_tree() -> None:
    def slow_clock() -> float:
        time.sleep(0.0001)  # lets other threads in between looking and counting, if anything can
        return 0.0

    root = Ledger(clock=slow_clock)
    ledgers = [root, root.child(), root.child(FallbackTrigger(max_llm_calls=7)), root.child().child()]
    gate = threading.Barrier(300)
    made = []

    def call(index: int) -> None:
        gate.wait()
        try:
            ledgers[index % 4].reserve_call()
        except BudgetExceeded:
            return
        made.append(index)

    with ThreadPoolExecutor(300) as pool:
        list(pool.map(call, range(300)))
    assert len(made) == root.usage().llm_calls == 50
    assert ledgers[2].usage().llm_calls <= 7


def test_a_child_counts_up_the_tree_and_not_to_its_siblings() -> None:
    clock = Clock()
    root = Ledger(clock=clock)
    child, sibling = root.child(), root.child()
    grandchild = child.child()
    clock.now += 5
    grandchild.reserve_call()
    grandchild.record_usage(100, 10, 0.25)
    child.record_usage(1, 2)
    assert root.usage() == Usage(101, 12, 0.25, 5.0, llm_calls=1, model_calls=2, unpriced_calls=1)
    assert child.usage() == root.usage()
    assert grandchild.usage() == Usage(100, 10, 0.25, 5.0, llm_calls=1, model_calls=1)
    assert sibling.usage() == Usage(seconds=5.0)
    assert [ledger.depth for ledger in (root, child, grandchild)] == [0, 1, 2]


def test_a_childs_own_smaller_limit_holds_and_leaves_the_rest_to_the_parent() -> None:
    root = Ledger()
    child = root.child(FallbackTrigger(max_llm_calls=2))
    child.reserve_call()
    child.reserve_call()
    with pytest.raises(BudgetExceeded, match="2 of 2 LLM calls"):
        child.reserve_call()
    root.reserve_call()
    assert root.usage().llm_calls == 3
    assert root.should_trigger() is None


def test_a_refused_call_is_counted_nowhere() -> None:
    root = Ledger(FallbackTrigger(max_llm_calls=1))
    child = root.child(FallbackTrigger(max_llm_calls=10))
    root.reserve_call()
    with pytest.raises(BudgetExceeded):
        child.reserve_call()
    assert (root.usage().llm_calls, child.usage().llm_calls) == (1, 0)


def test_a_child_stops_when_a_shared_limit_above_it_is_reached_and_not_for_the_parents_iterations() -> None:
    root = Ledger(FallbackTrigger(max_iterations=0, max_tokens=100, max_consecutive_errors=0))
    child = root.child(FallbackTrigger(max_iterations=5))
    assert child.should_trigger(iterations=4) is None
    assert child.should_trigger(iterations=5) == MaxIterations(5, 5)
    root.record_usage(60, 60)
    assert child.should_trigger(iterations=4) == MaxTokens(120, 100)
    assert child.should_trigger(iterations=4, submitted=True) is None


def test_a_child_run_that_is_the_last_call_itself_goes_on_without_calls() -> None:
    root = Ledger(FallbackTrigger(max_llm_calls=2))
    root.reserve_call()
    child = root.child(is_call=True)
    child.reserve_call()
    grandchild = child.child(is_call=True)
    assert child.should_trigger() is grandchild.should_trigger() is None
    with pytest.raises(BudgetExceeded):
        grandchild.reserve_call()
    for ledger in (root, root.child()):
        assert ledger.should_trigger() == MaxLLMCalls(2, 2)


def test_time_tokens_and_cost_refuse_calls_too() -> None:
    clock = Clock()
    ledger = Ledger(FallbackTrigger(max_duration=10, max_tokens=100, max_cost_usd=1.0), clock=clock)
    ledger.record_usage(50, 49, 0.5)
    ledger.reserve_call()
    ledger.record_usage(0, 1, 0.5)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve_call()
    assert caught.value.reason == MaxTokens(100, 100)
    clock.now += 10
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve_call()
    assert caught.value.reason == Timeout(10.0, 10)


def test_what_is_left_is_the_least_of_the_tree() -> None:
    clock = Clock()
    root = Ledger(FallbackTrigger(max_llm_calls=10, max_duration=60, max_cost_usd=1.0), clock=clock)
    clock.now += 20
    child = root.child(FallbackTrigger(max_iterations=4, max_llm_calls=30, max_duration=50, max_tokens=100))
    child.reserve_call()
    child.record_usage(30, 90, 0.25)
    left = child.remaining(iterations=1)
    assert left.to_dict() == {"llm_calls": 9, "seconds": 40.0, "tokens": 0, "cost_usd": 0.75, "iterations": 3}
    assert str(left) == "3 iterations, 9 LLM calls, 40 seconds, 0 tokens, $0.7500 left"
    assert child.seconds_left() == 40.0
    clock.now += 1000
    assert child.seconds_left() == 0.0
    assert child.remaining().seconds == 0.0


def test_no_limit_on_time_is_told_as_none() -> None:
    left = Ledger(FallbackTrigger(max_duration=math.inf)).remaining()
    assert left.seconds is None
    assert str(left) == "50 LLM calls left"


def test_a_run_that_is_taken_up_again_goes_on_counting() -> None:
    clock = Clock()
    ledger = Ledger(clock=clock, spent=Usage(10, 5, 0.1, 290.0, llm_calls=49, model_calls=3))
    ledger.reserve_call()
    clock.now += 10
    assert ledger.usage() == Usage(10, 5, 0.1, 300.0, llm_calls=50, model_calls=3)
    assert ledger.seconds_left() == 0.0


def test_usage_cannot_go_down() -> None:
    for wrong in ((-1, 0, None), (0, -1, None), (0, 0, -0.1), (0, 0, math.nan)):
        with pytest.raises(ValueError, match="negative"):
            Ledger().record_usage(*wrong)


class Tree(RuleBasedStateMachine):
    """Any order of calls, usage and child runs, against sums kept by hand."""

    @initialize(calls=st.integers(0, 12), tokens=st.none() | st.integers(0, 60))
    def start(self, calls: int, tokens: int | None) -> None:
        self.clock = Clock()
        root = Ledger(FallbackTrigger(max_llm_calls=calls, max_tokens=tokens, max_duration=1000), clock=self.clock)
        self.ledgers = [root]
        self.calls, self.tokens, self.cost = [0], [0], [0.0]

    def above(self, index: int) -> list[int]:
        found: list[int] = []
        ledger: Ledger | None = self.ledgers[index]
        while ledger is not None:
            found.append(self.ledgers.index(ledger))
            ledger = ledger.parent
        return found

    @rule(at=st.integers(0, 99), calls=st.none() | st.integers(0, 6))
    def child(self, at: int, calls: int | None) -> None:
        trigger = None if calls is None else FallbackTrigger(max_llm_calls=calls)
        self.ledgers.append(self.ledgers[at % len(self.ledgers)].child(trigger))
        for sums in (self.calls, self.tokens, self.cost):
            sums.append(0)  # type: ignore[attr-defined]

    @rule(at=st.integers(0, 99))
    def call(self, at: int) -> None:
        at %= len(self.ledgers)
        limits = [(index, self.ledgers[index].trigger) for index in self.above(at)]
        room = all(self.calls[index] < limit.max_llm_calls for index, limit in limits) and all(
            limit.max_tokens is None or self.tokens[index] < limit.max_tokens for index, limit in limits
        )
        try:
            self.ledgers[at].reserve_call()
        except BudgetExceeded:
            assert not room
        else:
            assert room
            for index in self.above(at):
                self.calls[index] += 1

    @rule(at=st.integers(0, 99), tokens=st.integers(0, 9), cost=st.none() | st.floats(0, 1))
    def answer(self, at: int, tokens: int, cost: float | None) -> None:
        at %= len(self.ledgers)
        self.ledgers[at].record_usage(tokens, tokens, cost)
        for index in self.above(at):
            self.tokens[index] += 2 * tokens
            self.cost[index] += cost or 0.0

    @rule(seconds=st.floats(0, 1))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def sums_agree_and_no_limit_is_passed(self) -> None:
        for index, ledger in enumerate(getattr(self, "ledgers", ())):
            usage = ledger.usage()
            assert usage.llm_calls == self.calls[index] <= ledger.trigger.max_llm_calls
            assert usage.tokens == self.tokens[index]
            assert math.isclose(usage.cost_usd or 0.0, self.cost[index], abs_tol=1e-9)
            assert ledger.remaining().llm_calls >= 0
            if ledger.parent is not None:
                assert usage.llm_calls <= ledger.parent.usage().llm_calls
                assert usage.seconds <= ledger.parent.usage().seconds


TestTree = Tree.TestCase


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 20))
def test_threads_in_any_order_never_pass_the_limit(turns: list[int], limit: int) -> None:
    root = Ledger(FallbackTrigger(max_llm_calls=limit))
    ledgers = [root, root.child(), root.child()]
    ledgers += [ledgers[1].child(), ledgers[2].child(FallbackTrigger(max_llm_calls=3))]

    def call(turn: int) -> int:
        try:
            ledgers[turn].reserve_call()
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        made = sum(pool.map(call, turns))
    assert made == root.usage().llm_calls <= limit
    assert ledgers[4].usage().llm_calls <= 3
    by_root_itself = min(made, turns.count(0))
    assert made - by_root_itself <= sum(ledger.usage().llm_calls for ledger in ledgers[1:3]) <= made


def test_time_spent_waiting_for_a_busy_model_is_left_out_up_the_tree() -> None:
    now = 0.0
    parent = Ledger(FallbackTrigger(max_duration=10), clock=lambda: now)
    child = parent.child()
    now = 12.0
    child.excuse(4.0)
    assert child.usage().seconds == parent.usage().seconds == 8.0
    assert parent.should_trigger() is None
    child.excuse(-5.0)
    assert parent.usage().seconds == 8.0
    now = 15.0
    assert isinstance(parent.should_trigger(), Timeout)


def test_no_second_is_left_out_twice_when_child_runs_wait_at_once() -> None:
    now = 0.0
    parent = Ledger(clock=lambda: now)
    children = [parent.child() for _ in range(3)]
    now = 10.0
    for child in children:
        child.excuse(8.0)
    assert [ledger.usage().seconds for ledger in (parent, *children)] == [2.0] * 4
    now = 13.0
    children[0].excuse(5.0)
    assert parent.usage().seconds == 2.0
