"""Asking a dspy language model, with patience: what passes is tried again, what does not is said in plain words."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .faults import Fault, Refused, describe, read_fault
from .line import Reply
from .lines import line_to
from .own import ask_engine, engine_of
from .request import config_for, request_for


class ModelError(Exception):
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
    """Seconds spent between attempts: nobody was working on it then."""


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
    model's own settings in this call.
    """
    backoff = backoff or Backoff()
    waited, failures = 0.0, 0
    while True:
        try:
            if deadline is None:
                answer = await _asked_once(lm, turns, system, options)
            else:
                async with asyncio.timeout(deadline - time.monotonic()):
                    answer = await _asked_once(lm, turns, system, options)
            return replace(answer, waited=waited) if waited else answer
        except Exception as error:
            fault = read_fault(error)
        failures += 1
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise _too_late(lm, fault, failures, waited)
        if not fault.passing or failures > getattr(lm, "num_retries", 0):
            raise ModelError(fault.kind, describe(fault, lm, failures), waited)
        pause = backoff.seconds(failures, fault.retry_after)
        if pause > backoff.most * 1.1:
            fault = replace(fault, said=f"{fault.said}; it asks to wait {pause:,.0f} seconds")
            raise ModelError(fault.kind, describe(fault, lm, failures), waited)
        if deadline is not None and now + pause > deadline:
            raise _too_late(lm, fault, failures, waited)
        await asyncio.sleep(pause)
        waited += time.monotonic() - now


def _too_late(lm: Any, fault: Fault, failures: int, waited: float) -> ModelError:
    last = f"; the last attempt: {fault.said or fault.kind}" if fault.kind != "timeout" or fault.said else ""
    late = Fault("timeout", f"the time for this call is over{last}", passing=False)
    return ModelError("timeout", describe(late, lm, failures), waited)


async def _asked_once(lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: dict[str, Any]) -> Answer:
    if (engine := engine_of(lm)) is not None:
        return _answer(await ask_engine(engine, lm, turns, system, options))
    line = line_to(lm, options)
    # An empty text is written in a form of its own.
    if line is not None and all(text for _, text in turns):
        reply = await line.ask(lm, turns, system)
    else:
        reply = await _by_dspy(lm, turns, system, options)
    return _answer(reply)


def _answer(reply: Reply) -> Answer:
    if reply.finish_reason == "content_filter":
        raise Refused(reply.text[:200])
    return Answer(reply.text, reply.finish_reason == "length", reply.tokens_in, reply.tokens_out, reply.cost_usd)


async def _by_dspy(lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: dict[str, Any]) -> Reply:
    """One attempt as dspy makes it: its cache, its callbacks, any provider or engine."""
    import dspy

    settings = {**lm.kwargs, **options}
    request = request_for(lm.model, turns, system, config_for(settings))
    # A copy: its history holds this call alone, whatever else is asked at the same time. Retries are ours.
    one = lm.copy(num_retries=0)
    call = {"cache": options.get("cache", lm.cache)}
    if settings.get("rollout_id") is not None:
        call["rollout_id"] = settings["rollout_id"]
    response = await one.acall(request, **call)
    lm.history.extend(one.history)
    del lm.history[: -dspy.settings.max_history_size or None]
    return Reply.of(response, one.history[-1].get("cost") if one.history else None)
