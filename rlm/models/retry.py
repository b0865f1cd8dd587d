"""The retry policy of model calls: which failures are retried, after which wait, and for how long."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import Fault, describe, describe_deadline, describe_last_attempt, read_fault
from .requests import Wait, seconds_for_retries, wait

if TYPE_CHECKING:
    from .rate_limit.bucket import Slot
    from .rate_limit.limiter import RateLimiter

RATE_LIMITED_PATIENCE_S = 600.0
"""How long a model with a rate limiter is asked again after "too many requests", where no deadline comes first."""
_MEASURABLE_S = 0.005
_OVERLOADED = frozenset({429, 503, 529})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter."""

    first: float = 1.0
    longest: float = 60.0
    """The longest wait. A server that asks for a longer one is not retried."""

    patience: float = 90.0
    """For how many seconds an overloaded server (429, 503, 529) is retried, beyond `num_retries` of the model. A model
    with `num_retries=0` is not retried."""

    def delay(self, failures: int, retry_after: float | None) -> float:
        """Return the wait after so many failures. What the server asks for comes first.

        A server that asks for hardly any wait (`Retry-After: 0`) and goes on refusing is asked ever less often, too.
        """
        step: float = min(self.longest, self.first * 2 ** min(failures - 1, 30))
        backoff = step * random.uniform(0.5, 1.0)
        if retry_after is None or retry_after < min(backoff, self.first):
            return backoff
        return retry_after + random.uniform(0, min(step, 0.1 * retry_after))


class AttemptsFailed(Exception):
    """All attempts of a call have failed; `error` is what the last one raised."""

    def __init__(self, kind: str, message: str, waited: float, queued: float, error: Exception | None) -> None:
        super().__init__(kind, message, waited, queued, error)
        self.kind, self.message, self.error = kind, message, error
        self.waited, self.queued = waited, queued


@dataclass(slots=True)
class ModelAttempts:
    """The attempts of one model call."""

    lm: Any
    retry: RetryPolicy
    limiter: RateLimiter | None = None
    deadline: float | None = None
    """A time of `time.monotonic()`, at which the call fails."""

    tokens_in: float = 0.0
    max_tokens: float | None = None
    waited: float = 0.0
    """Seconds spent between attempts or waiting for the rate limit."""

    queued: float = 0.0
    """Those of them that were spent waiting for the rate limit."""

    attempts: int = 0
    _refusals: int = 0
    """Attempts that the rate limiter answers for: they do not count as retries."""

    _began: float = 0.0
    _first_failure: float = 0.0
    _fault: Fault | None = None
    _error: Exception | None = None

    async def run(self, attempt: Callable[[], Awaitable[T]], tokens: Callable[[T], tuple[int, int]]) -> T:
        """Return the result of the first attempt that succeeds. Raises `AttemptsFailed`.

        `tokens` are those that a result has used: prompt and answer.
        """
        self._began = time.monotonic()
        while True:
            slot = None if self.limiter is None else await self._acquire(self.limiter)
            try:
                if self.deadline is None:
                    result = await attempt()
                else:
                    async with asyncio.timeout(self.deadline - time.monotonic()):
                        result = await attempt()
            except Exception as error:
                self._fault, self._error = read_fault(error), error
            else:
                if self.limiter is not None and slot is not None:
                    await self.limiter.settle(slot, *tokens(result))
                return result
            self.attempts += 1
            self._first_failure = self._first_failure or time.monotonic()
            if self._fault.kind == "rate" and self.limiter is not None and slot is not None:
                await self._slow_down(self.limiter, slot, self._fault)
            else:
                await self._pause(self._fault)

    async def _acquire(self, limiter: RateLimiter) -> Slot:
        from .rate_limit.limiter import SlotAfterDeadline

        began = time.monotonic()
        try:
            return await limiter.acquire(self.tokens_in, self.max_tokens, self.deadline)
        except SlotAfterDeadline as error:
            raise self._out_of_time(error.requests_ahead) from None
        finally:
            seconds = time.monotonic() - began
            if seconds > _MEASURABLE_S:
                self.waited, self.queued = self.waited + seconds, self.queued + seconds

    async def _slow_down(self, limiter: RateLimiter, slot: Slot, fault: Fault) -> None:
        """Slow down all callers after a refusal; the next slot of this call comes after theirs."""
        pause, now = await limiter.slow_down(slot, fault.retry_after), time.monotonic()
        self._refusals += 1
        pause = max(pause, fault.retry_after or 0.0)
        if self.deadline is not None and now + pause > self.deadline:
            raise self._out_of_time()
        if self.deadline is None and now + pause > self._first_failure + RATE_LIMITED_PATIENCE_S:
            raise self._failed(_asking_for(fault, pause))

    async def _pause(self, fault: Fault) -> None:
        """Wait before the next attempt, or raise if there is none."""
        now, failures = time.monotonic(), self.attempts - self._refusals
        if self.deadline is not None and now >= self.deadline:
            raise self._out_of_time()
        pause = self.retry.delay(failures, fault.retry_after)
        if not fault.passing or (failures > self._retries() and not self._is_patient(fault, now + pause)):
            raise self._failed(fault)
        if pause > self.retry.longest * 1.1:
            raise self._failed(_asking_for(fault, pause))
        if self.deadline is not None and now + pause > self.deadline:
            raise self._out_of_time()
        if pause > seconds_for_retries():
            raise self._failed(fault, describe_last_attempt(fault, self.lm, self.attempts, pause))
        await wait(Wait(str(self.lm.model), fault.summary, pause, pause))
        self.waited += time.monotonic() - now

    def _retries(self) -> int:
        return int(getattr(self.lm, "num_retries", 0) or 0)

    def _is_patient(self, fault: Fault, until: float) -> bool:
        """Return whether a short outage of the server is still waited for at a time."""
        overloaded = fault.kind == "rate" or fault.status in _OVERLOADED
        return overloaded and self._retries() > 0 and until < self._first_failure + self.retry.patience

    def _failed(self, fault: Fault, message: str | None = None) -> AttemptsFailed:
        message = message or describe(fault, self.lm, self.attempts)
        return AttemptsFailed(fault.kind, message, self.waited, self.queued, self._error)

    def _out_of_time(self, requests_ahead: int = 0) -> AttemptsFailed:
        seconds = (self.deadline or 0.0) - self._began
        message = describe_deadline(self._fault, self.lm, self.attempts, seconds, requests_ahead)
        kind = "rate" if self._fault is None or self._fault.kind == "rate" else "timeout"
        return AttemptsFailed(kind, message, self.waited, self.queued, self._error)


def _asking_for(fault: Fault, seconds: float) -> Fault:
    return replace(fault, detail=f"{fault.detail}; it asks to wait {fault.retry_after or seconds:,.0f} seconds")
