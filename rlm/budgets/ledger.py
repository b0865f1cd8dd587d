"""The ledger: what a run and all its child runs use.

A call is refused before it is made. Tokens and cost are known only afterwards, so calls that are in flight when such a
limit is reached still finish. A part of the time, tokens and cost is kept for the extraction at the end of a run.
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
from .budget import ExecutionState, FallbackReason, FallbackTrigger, MaxCost, MaxLLMCalls, MaxTokens, Timeout

KEPT_SHARE = 0.2
"""The share of the time, tokens and cost of a run that is kept for its extraction."""

KEPT_SECONDS = 120.0
"""The most time that is kept."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used, child runs included."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    """The cost of the calls with a known price; None if there were none."""

    seconds: float = 0.0
    llm_calls: int = 0
    """Model calls of code in the REPL, which `max_llm_calls` limits."""

    model_calls: int = 0
    """All model calls, those of the main model included."""

    unpriced_calls: int = 0
    """Model calls without a known price."""

    cached_calls: int = 0
    """Model calls answered from the response cache, at no cost."""

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.tokens_in + self.tokens_out

    def add_llm_call(self) -> Usage:
        """Return the usage with one more model call of code in the REPL."""
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

    def add_response(self, tokens_in: int, tokens_out: int, cost_usd: float | None, cached: bool) -> Usage:
        """Return the usage with one more response. `dataclasses.replace` would take four times as long."""
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
        """Return the usage as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Usage:
        """Return the usage that `to_dict` described."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a budget, within the limits of all parent runs. None is no limit."""

    llm_calls: int
    seconds: float | None
    tokens: int | None
    cost_usd: float | None
    iterations: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is left as plain JSON values, for `budget()` in the REPL."""
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


class BudgetExceeded(RlmError):
    """A call was refused because a limit is reached, or would be passed: `reason`."""

    def __init__(self, reason: FallbackReason, message: str | None = None) -> None:
        self.reason = reason
        super().__init__(message or str(reason))


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept for the extraction, of the limits of one ledger or of several."""

    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: _Kept) -> _Kept:
        return _Kept(self.seconds + other.seconds, self.tokens + other.tokens, self.cost_usd + other.cost_usd)


_NOTHING = _Kept()


class Ledger:
    """Counts what a run uses. What a child run uses is added to all ledgers above it at the same time."""

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
        # One lock for the whole tree: a call needs room in every ledger above it at once.
        self._lock = threading.Lock()
        self._spent = spent or Usage()  # a resumed run has used something before
        self._started = self._excused_until = clock()
        self._is_call = False
        self._most_kept = _NOTHING
        self._largest = 0, 0.0  # tokens and cost of the largest response

    def child(
        self, trigger: FallbackTrigger | None = None, spent: Usage | None = None, *, is_call: bool = False
    ) -> Ledger:
        """Return the ledger of a child run: within its own limits and those above it. Its time starts now.

        `spent` is what a resumed child run has used before; it counts against the limits of the child alone.
        `is_call` says that the child run was reserved as a call itself: if that was the last one, the child run
        continues without calls.
        """
        child = Ledger(trigger or self.trigger, clock=self._clock, spent=spent)
        child.parent, child.depth, child._lock, child._is_call = self, self.depth + 1, self._lock, is_call
        return child

    def reserve_call(self) -> None:
        """Count a call of code in the REPL before it is made. Raise `BudgetExceeded` if a limit is reached."""
        with self._lock:
            reason = self._shared_limit()
            if reason is not None:
                raise BudgetExceeded(reason)
            for ledger in self._lineage():
                ledger._spent = ledger._spent.add_llm_call()

    def refuse_batch(self, calls: int) -> None:
        """Raise `BudgetExceeded` if there are not so many calls left. Nothing is counted."""
        with self._lock:
            for ledger in self._lineage():
                used, limit = ledger._spent.llm_calls, ledger.trigger.max_llm_calls
                if calls > limit - used:
                    left = max(0, limit - used)
                    message = f"{calls} LLM calls are needed and {left} of {limit} are left: nothing was asked."
                    if left:
                        message += f" Ask at most {left} at once, and call SUBMIT in the same cell."
                    raise BudgetExceeded(MaxLLMCalls(used, limit), message)

    def keep_for_extraction(self) -> None:
        """Keep a part of the time, tokens and cost from now on: the other limits are reached earlier.

        Of tokens and cost at least as much is kept as the largest response took; of nothing more than half of what is
        left now.
        """
        left = self.remaining()
        with self._lock:
            self._most_kept = _Kept((left.seconds or 0.0) / 2, (left.tokens or 0) // 2, (left.cost_usd or 0.0) / 2)

    def release_kept(self) -> None:
        """Let the extraction have what was kept for it."""
        with self._lock:
            self._most_kept = _NOTHING

    def record_usage(
        self, tokens_in: int, tokens_out: int, cost_usd: float | None = None, *, cached: bool = False
    ) -> None:
        """Count the tokens of one model call, and its cost where the price is known."""
        if tokens_in < 0 or tokens_out < 0 or (cost_usd is not None and not 0 <= cost_usd < math.inf):
            raise ValueError(f"usage cannot be negative: {tokens_in=}, {tokens_out=}, {cost_usd=}")
        with self._lock:
            for ledger in self._lineage():
                ledger._spent = ledger._spent.add_response(tokens_in, tokens_out, cost_usd, cached)
                tokens, cost = ledger._largest
                ledger._largest = max(tokens, tokens_in + tokens_out), max(cost, cost_usd or 0.0)

    def excuse(self, seconds: float) -> None:
        """Exclude the last seconds from the elapsed time: they were spent waiting for a busy model or an operator.

        No second is excluded twice, although child runs may wait at the same time.
        """
        with self._lock:
            now = self._clock()
            for ledger in self._lineage():
                start = max(now - seconds, ledger._excused_until)
                if now > start:
                    ledger._started += now - start
                    ledger._excused_until = now

    def usage(self) -> Usage:
        """Return what has been used so far, child runs included."""
        with self._lock:
            return dataclasses.replace(self._spent, seconds=self._elapsed())

    def state(self, *, iterations: int = 0, submitted: bool = False, consecutive_errors: int = 0) -> ExecutionState:
        """Return the state of the run; the arguments are what only its loop knows."""
        with self._lock:
            return dataclasses.replace(
                self._state(), iterations=iterations, submitted=submitted, consecutive_errors=consecutive_errors
            )

    def should_trigger(
        self, *, iterations: int = 0, submitted: bool = False, consecutive_errors: int = 0
    ) -> FallbackReason | None:
        """Return the first limit that is reached: of this run, or a shared one of the runs above it."""
        with self._lock:
            kept = self._kept()
            state = dataclasses.replace(
                self._state(kept), iterations=iterations, submitted=submitted, consecutive_errors=consecutive_errors
            )
            reason = self.trigger.should_trigger(state)
            if reason is not None or submitted or self.parent is None:
                return _without_kept(reason, kept)
            return self.parent._shared_limit(kept, calls=not self._is_call)

    def remaining(self, iterations: int | None = None) -> Remaining:
        """Return what is left; with `iterations`, the number used so far, also how many of these are left."""
        with self._lock:
            tree = [(ledger.trigger, ledger._state(kept)) for ledger, kept in self._with_kept()]
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
        """Return how many seconds the run may continue, at least 0."""
        with self._lock:
            tree = [(ledger.trigger, ledger._state(kept)) for ledger, kept in self._with_kept()]
        return max(0.0, min(limits.max_duration - state.elapsed for limits, state in tree))

    def payable_tokens(self) -> float:
        """Return how many tokens can still be used, by the limits on tokens and cost; infinite without such limits.

        What a token costs is estimated by what the calls before have cost.
        """
        left, usage = self.remaining(), self.usage()
        tokens = math.inf if left.tokens is None else left.tokens
        if left.cost_usd is not None and usage.cost_usd:
            tokens = min(tokens, left.cost_usd * usage.tokens / usage.cost_usd)
        return tokens

    def scarce(self) -> BudgetExceeded:
        """Return the error that the tokens or the cost that are left do not suffice for an extraction."""
        left, usage, limits = self.remaining(), self.usage(), self.trigger
        if left.cost_usd is not None and self.payable_tokens() < (math.inf if left.tokens is None else left.tokens):
            reason: FallbackReason = MaxCost(usage.cost_usd or 0.0, limits.max_cost_usd or 0.0)
            rest = f"${left.cost_usd:.6f}"
        else:
            reason, rest = MaxTokens(usage.tokens, limits.max_tokens or 0), f"{left.tokens or 0:,} tokens"
        return BudgetExceeded(
            reason, f"{rest}, which {reason.setting} leaves, do not suffice for the extraction: raise it"
        )

    def _lineage(self) -> Iterator[Ledger]:
        ledger: Ledger | None = self
        while ledger is not None:
            yield ledger
            ledger = ledger.parent

    def _elapsed(self) -> float:
        return self._spent.seconds + self._clock() - self._started

    def _kept(self) -> _Kept:
        most, limits = self._most_kept, self.trigger
        if most is _NOTHING:
            return most
        return _Kept(
            min(KEPT_SHARE * limits.max_duration, KEPT_SECONDS, most.seconds),
            min(max(int(KEPT_SHARE * (limits.max_tokens or 0)), self._largest[0]), most.tokens),
            min(max(KEPT_SHARE * (limits.max_cost_usd or 0.0), self._largest[1]), most.cost_usd),
        )

    def _with_kept(self, kept: _Kept = _NOTHING) -> Iterator[tuple[Ledger, _Kept]]:
        """Yield this ledger and those above it, each with what is kept up to there."""
        for ledger in self._lineage():
            kept += ledger._kept()
            yield ledger, kept

    def _state(self, kept: _Kept = _NOTHING) -> ExecutionState:
        """Return what was used; what is kept counts as used."""
        spent = self._spent
        return ExecutionState(
            llm_calls=spent.llm_calls,
            elapsed=self._elapsed() + kept.seconds,
            tokens=spent.tokens + kept.tokens,
            cost_usd=(spent.cost_usd or 0.0) + kept.cost_usd,
        )

    def _shared_limit(self, kept: _Kept = _NOTHING, *, calls: bool = True) -> FallbackReason | None:
        """Return the first shared limit that is reached, from here up; without `calls`, that of calls is ignored."""
        for ledger, kept_up_to in self._with_kept(kept):
            state = ledger._state(kept_up_to)
            reason = ledger.trigger.shared_limit(state if calls else dataclasses.replace(state, llm_calls=0))
            if reason is not None:
                return _without_kept(reason, kept_up_to)
        return None


def _without_kept(reason: FallbackReason | None, kept: _Kept) -> FallbackReason | None:
    """Return the reason with what was used, and what is kept beside it."""
    match reason:
        case Timeout(elapsed, limit) if kept.seconds:
            return Timeout(elapsed - kept.seconds, limit, kept.seconds)
        case MaxTokens(tokens, limit) if kept.tokens:
            return MaxTokens(tokens - kept.tokens, limit, kept.tokens)
        case MaxCost(cost, limit) if kept.cost_usd:
            return MaxCost(cost - kept.cost_usd, limit, kept.cost_usd)
    return reason
