"""Asking a dspy language model, with patience: what passes is tried again, what does not is said in plain words."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..dspy_bridge import call_lm
from ..errors import RlmError
from ..redaction import protect
from .direct.routing import direct_client
from .engines import ask_engine, engine_of
from .errors import Fault, Refused, describe, read_fault
from .policy import lane_to, question_to
from .rate_limit.bucket import Place
from .rate_limit.limiter import Lane, TooLate, tokens_of
from .requests import config_for, request_for
from .response import ModelResponse

_AT_ONCE_S = 0.005
BUSY_S = 600.0
"""How long a server that says "too many" is asked again, where all keep one pace and no deadline comes first."""


class ModelError(RlmError):
    """The model could not be asked.

    `kind` says why, in one word: key, billing, rate, timeout, transport, server, context, model, refused or unknown.
    `waited` is how many seconds of it were spent between attempts.
    """

    def __init__(self, kind: str, message: str, waited: float = 0.0) -> None:
        super().__init__(message)
        self.kind = kind
        self.waited = waited


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said."""

    text: str
    truncated: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    waited: float = 0.0
    """Seconds spent between attempts, or until it was our turn: nobody was working on it then."""

    cached: bool = False
    """Whether it was on disk: then it cost nothing, and used no tokens."""

    calls: tuple[Any, ...] = ()
    """The calls that it took, where an adapter was asked; the last one gave it."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next attempt: twice as long each time, and never all callers at the same moment."""

    first: float = 1.0
    most: float = 60.0
    """No wait is longer. A server that asks for more than this is not waited for."""

    def seconds(self, failures: int, retry_after: float | None) -> float:
        """The wait after so many failures; what the server asked for comes first."""
        step: float = min(self.most, self.first * 2 ** min(failures - 1, 30))
        if retry_after is not None:
            return retry_after + random.uniform(0, min(step, 0.1 * retry_after))
        return step * random.uniform(0.5, 1.0)


async def ask(
    lm: Any,
    turns: Sequence[tuple[str, str]],
    *,
    system: str | None = None,
    deadline: float | None = None,
    backoff: Backoff | None = None,
    **options: Any,
) -> Answer:
    """Ask `lm`, a `dspy.LM`. Raises `ModelError`, after as many attempts as the model's `num_retries` allows.

    `deadline` is a time of `time.monotonic()`: when it comes, nothing is waited for any more. `options` override the
    model's own settings in this call. Where `traffic` is in use, the answer may come from disk, it is waited for our
    turn, and a server that says "too many" is asked again until the deadline.
    """
    protect((getattr(lm, "kwargs", None) or {}).get("api_key"))
    question = question_to(lm, turns, system, options)
    if question is None:
        return await _Asking(lm, turns, system, deadline, backoff or Backoff(), options).answer()
    found = question.find()
    if found is not None:
        return Answer(found["text"], bool(found.get("truncated")), cost_usd=0.0, cached=True)
    try:
        answer = await _Asking(lm, turns, system, deadline, backoff or Backoff(), options).answer()
    except BaseException:
        question.failed()
        raise
    await question.keep(
        {"text": answer.text, "truncated": answer.truncated, "tokens_in": answer.tokens_in}
        | {"tokens_out": answer.tokens_out, "cost_usd": answer.cost_usd}
    )
    return answer


@dataclass(slots=True)
class _Asking:
    """One question, for as many attempts as it takes."""

    lm: Any
    turns: Sequence[tuple[str, str]]
    system: str | None
    deadline: float | None
    backoff: Backoff
    options: dict[str, Any]
    waited: float = 0.0
    failures: int = 0
    refused: int = 0
    """How many of these were "too many", and waited for with everybody else."""

    busy_until: float | None = None

    async def answer(self) -> Answer:
        """The answer, with how long it was waited for. Raises `ModelError`."""
        lane = lane_to(self.lm)
        fault = Fault("rate", "none yet, for others are before it", passing=True)
        while True:
            place = None if lane is None else await self._turn(lane, fault)
            try:
                if self.deadline is None:
                    answer = await self._once()
                else:
                    async with asyncio.timeout(self.deadline - time.monotonic()):
                        answer = await self._once()
            except Exception as error:
                fault = read_fault(error)
            else:
                if lane is not None and place is not None:
                    await lane.settle(place, answer.tokens_in, answer.tokens_out)
                return replace(answer, waited=self.waited) if self.waited else answer
            self.failures += 1
            if fault.kind == "rate" and lane is not None and place is not None:
                await self._slowed(lane, place, fault)
            else:
                await self._pause(fault)

    async def _turn(self, lane: Lane, last: Fault) -> Place:
        settings = {**self.lm.kwargs, **self.options}
        most = settings.get("max_tokens") or settings.get("max_completion_tokens")
        began = time.monotonic()
        try:
            return await lane.enter(tokens_of(self.turns, self.system), most, self.deadline)
        except TooLate:
            raise self._too_late(last) from None
        finally:
            took = time.monotonic() - began
            self.waited += took if took > _AT_ONCE_S else 0.0

    async def _slowed(self, lane: Lane, place: Place, fault: Fault) -> None:
        """The server said "too many": everybody is slowed down, and this question goes to the end of the line."""
        pause, now = await lane.slow(place, fault.retry_after), time.monotonic()
        self.refused += 1
        if self.busy_until is None:
            self.busy_until = now + BUSY_S
        asked = max(pause, fault.retry_after or 0.0)
        if self.deadline is None and now + asked > self.busy_until:
            fault = replace(fault, said=f"{fault.said}; it asks to wait {asked:,.0f} seconds")
            raise ModelError(fault.kind, describe(fault, self.lm, self.failures), self.waited)
        if self.deadline is not None and now + asked > self.deadline:
            raise self._too_late(fault)

    async def _pause(self, fault: Fault) -> None:
        """Wait before the next attempt, or raise if there is none."""
        now, failures = time.monotonic(), self.failures - self.refused
        if self.deadline is not None and now >= self.deadline:
            raise self._too_late(fault)
        if not fault.passing or failures > getattr(self.lm, "num_retries", 0):
            raise ModelError(fault.kind, describe(fault, self.lm, self.failures), self.waited)
        pause = self.backoff.seconds(failures, fault.retry_after)
        if pause > self.backoff.most * 1.1:
            fault = replace(fault, said=f"{fault.said}; it asks to wait {pause:,.0f} seconds")
            raise ModelError(fault.kind, describe(fault, self.lm, self.failures), self.waited)
        if self.deadline is not None and now + pause > self.deadline:
            raise self._too_late(fault)
        await asyncio.sleep(pause)
        self.waited += time.monotonic() - now

    def _too_late(self, fault: Fault) -> ModelError:
        last = f"; the last attempt: {fault.said or fault.kind}" if fault.kind != "timeout" or fault.said else ""
        late = Fault("timeout", f"the time for this call is over{last}", passing=False)
        return ModelError("timeout", describe(late, self.lm, self.failures), self.waited)

    async def _once(self) -> Answer:
        lm, turns, system, options = self.lm, self.turns, self.system, self.options
        if (engine := engine_of(lm)) is not None:
            return _answer(await ask_engine(engine, lm, turns, system, options))
        client = direct_client(lm, options)
        # An empty text is written in a form of its own.
        if client is not None and all(text for _, text in turns):
            return _answer(await client.ask(lm, turns, system))
        return _answer(await _by_dspy(lm, turns, system, options))


def _answer(reply: ModelResponse) -> Answer:
    if reply.finish_reason == "content_filter":
        raise Refused(reply.text[:200])
    truncated = reply.finish_reason == "length"
    if reply.cached:
        return Answer(reply.text, truncated, cost_usd=0.0, cached=True)
    return Answer(reply.text, truncated, reply.tokens_in, reply.tokens_out, reply.cost_usd)


async def _by_dspy(
    lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: dict[str, Any]
) -> ModelResponse:
    """One attempt as dspy makes it: its cache, its callbacks, any provider or engine."""
    settings = {**lm.kwargs, **options}
    request = request_for(lm.model, turns, system, config_for(settings))
    call = {"cache": options.get("cache", lm.cache)}
    if settings.get("rollout_id") is not None:
        call["rollout_id"] = settings["rollout_id"]
    response, recorded = await call_lm(lm, request, **call)
    if recorded is None:
        return ModelResponse.of(response, None)
    return replace(ModelResponse.of(response, recorded.cost_usd), cached=recorded.cached)
