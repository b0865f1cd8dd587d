"""The ledger: counts what a run and all its child runs use.

A call is refused where it is made, before it is made. Tokens and cost are known only afterwards, so calls that are in
flight when such a limit is reached still finish.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RlmError
from ..text import count
from .reasons import (
    FallbackReason,
)
from .trigger import ExecutionState, FallbackTrigger


class BudgetExceeded(RlmError):
    """Something was refused because a limit is reached."""

    def __init__(self, reason: FallbackReason) -> None:
        self.reason = reason
        super().__init__(str(reason))


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used, its child runs included."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    """What is known of the cost; None where no call had a price."""

    seconds: float = 0.0
    llm_calls: int = 0
    """Calls made from inside the REPL: what `max_llm_calls` limits."""

    model_calls: int = 0
    """All answers of models that were recorded, those that write the code included."""

    unpriced_calls: int = 0
    """How many of these had no known cost."""

    cached_calls: int = 0
    """How many of these were answered from disk, at no cost."""

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.tokens_in + self.tokens_out

    def and_a_call(self) -> Usage:
        """One more call made from inside the REPL."""
        return Usage(
            self.tokens_in,
            self.tokens_out,
            self.cost_usd,
            self.seconds,
            self.llm_calls + 1,
            self.model_calls,
            self.unpriced_calls,
            self.cached_calls,
        )

    def and_an_answer(self, tokens_in: int, tokens_out: int, cost_usd: float | None, cached: bool) -> Usage:
        """One more answer of a model. (`dataclasses.replace` would take four times as long, for every question.)"""
        return Usage(
            self.tokens_in + tokens_in,
            self.tokens_out + tokens_out,
            self.cost_usd if cost_usd is None else (self.cost_usd or 0.0) + cost_usd,
            self.seconds,
            self.llm_calls,
            self.model_calls + 1,
            self.unpriced_calls + (cost_usd is None),
            self.cached_calls + cached,
        )

    def to_dict(self) -> dict[str, Any]:
        """The usage as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Usage:
        """The usage that `to_dict` described."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left for a run, the limits of its parents included. None: no limit."""

    llm_calls: int
    seconds: float | None
    tokens: int | None
    cost_usd: float | None
    iterations: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """What is left as plain JSON values, for `budget()` in the REPL."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        left = [] if self.iterations is None else [count(self.iterations, "iteration")]
        left.append(count(self.llm_calls, "LLM call"))
        if self.seconds is not None:
            left.append(f"{self.seconds:.0f} seconds")
        if self.tokens is not None:
            left.append(f"{self.tokens:,} tokens")
        if self.cost_usd is not None:
            left.append(f"${self.cost_usd:.4f}")
        return ", ".join(left) + " left"


class Ledger:
    """What a run has used. Everything that a child's ledger counts is counted up the tree in the same moment."""

    def __init__(
        self,
        trigger: FallbackTrigger | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        spent: Usage | None = None,
    ) -> None:
        self.trigger = trigger or FallbackTrigger()
        self.parent: Ledger | None = None
        self.depth = 0
        self._clock = clock
        # One lock for the whole tree: a call has to find room in every ledger above it at once.
        self._lock = threading.Lock()
        self._spent = spent or Usage()  # `spent` is what a run that is taken up again had used before
        self._started = self._excused_until = clock()
        self._is_call = False

    def child(
        self, trigger: FallbackTrigger | None = None, spent: Usage | None = None, *, is_call: bool = False
    ) -> Ledger:
        """The ledger of a child run. Its own limits hold as well as those above it; its time starts now.

        `spent` is what a child that is taken up again had used before: it counts for the child's limits alone.
        `is_call`: the child run is itself a call that was reserved. If it was the last one, it goes on without calls.
        """
        made = Ledger(trigger or self.trigger, clock=self._clock, spent=spent)
        made.parent, made.depth, made._lock, made._is_call = self, self.depth + 1, self._lock, is_call
        return made

    def reserve_call(self) -> None:
        """Count one LLM call that is about to be made; `BudgetExceeded`, and nothing counted, if there is no room."""
        with self._lock:
            reason = self._shared_limit()
            if reason is not None:
                raise BudgetExceeded(reason)
            for ledger in self._upwards():
                ledger._spent = ledger._spent.and_a_call()

    def record_usage(
        self, tokens_in: int, tokens_out: int, cost_usd: float | None = None, *, cached: bool = False
    ) -> None:
        """Count what one answer of a model has used; the cost where it is known."""
        if tokens_in < 0 or tokens_out < 0 or (cost_usd is not None and not 0 <= cost_usd < math.inf):
            raise ValueError(f"usage cannot be negative: {tokens_in=}, {tokens_out=}, {cost_usd=}")
        with self._lock:
            for ledger in self._upwards():
                ledger._spent = ledger._spent.and_an_answer(tokens_in, tokens_out, cost_usd, cached)

    def excuse(self, seconds: float) -> None:
        """Leave out the last so many seconds: a model that was busy was waited for, and that is nobody's fault here.

        No second is left out twice: child runs that are under way at once wait at once.
        """
        with self._lock:
            now = self._clock()
            for ledger in self._upwards():
                since = max(now - seconds, ledger._excused_until)
                if now > since:
                    ledger._started += now - since
                    ledger._excused_until = now

    def usage(self) -> Usage:
        """What has been used so far, child runs included."""
        with self._lock:
            return dataclasses.replace(self._spent, seconds=self._elapsed())

    def state(self, *, iterations: int = 0, submitted: bool = False, consecutive_errors: int = 0) -> ExecutionState:
        """The state of the run, with what only its driver knows."""
        with self._lock:
            return dataclasses.replace(
                self._state(), iterations=iterations, submitted=submitted, consecutive_errors=consecutive_errors
            )

    def should_trigger(
        self, *, iterations: int = 0, submitted: bool = False, consecutive_errors: int = 0
    ) -> FallbackReason | None:
        """The first limit that is reached: of this run, or a shared one of the runs above it."""
        state = self.state(iterations=iterations, submitted=submitted, consecutive_errors=consecutive_errors)
        reason = self.trigger.should_trigger(state)
        if reason is not None or submitted or self.parent is None:
            return reason
        with self._lock:
            return self.parent._shared_limit(calls=not self._is_call)

    def remaining(self, iterations: int | None = None) -> Remaining:
        """What is left; `iterations` is how many the run has used, if that is to be told."""
        with self._lock:
            tree = [(ledger.trigger, ledger._state()) for ledger in self._upwards()]
        seconds = min(limits.max_duration - state.elapsed for limits, state in tree)
        tokens = [limits.max_tokens - state.tokens for limits, state in tree if limits.max_tokens is not None]
        costs = [limits.max_cost_usd - state.cost_usd for limits, state in tree if limits.max_cost_usd is not None]
        return Remaining(
            llm_calls=max(0, min(limits.max_llm_calls - state.llm_calls for limits, state in tree)),
            seconds=max(0.0, seconds) if math.isfinite(seconds) else None,
            tokens=max(0, min(tokens)) if tokens else None,
            cost_usd=max(0.0, min(costs)) if costs else None,
            iterations=None if iterations is None else max(0, self.trigger.max_iterations - iterations),
        )

    def seconds_left(self) -> float:
        """How long the run may go on; never below 0."""
        return max(0.0, min(ledger.trigger.max_duration - ledger._elapsed() for ledger in self._upwards()))

    def _upwards(self) -> Iterator[Ledger]:
        ledger: Ledger | None = self
        while ledger is not None:
            yield ledger
            ledger = ledger.parent

    def _elapsed(self) -> float:
        return self._spent.seconds + self._clock() - self._started

    def _state(self) -> ExecutionState:
        spent = self._spent
        return ExecutionState(
            llm_calls=spent.llm_calls, elapsed=self._elapsed(), tokens=spent.tokens, cost_usd=spent.cost_usd or 0.0
        )

    def _shared_limit(self, *, calls: bool = True) -> FallbackReason | None:
        """The first shared limit that is reached, from here up; that of calls only if asked for."""
        for ledger in self._upwards():
            state = ledger._state()
            reason = ledger.trigger.shared_limit(state if calls else dataclasses.replace(state, llm_calls=0))
            if reason is not None:
                return reason
        return None
