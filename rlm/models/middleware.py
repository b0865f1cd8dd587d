"""A model at everybody's pace, and with the answers on disk, for those who ask it by themselves: dspy's adapters do.

They do not go through `ask`, and want what dspy gives them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..dspy_bridge import RecordedCall, record_call
from .client import Backoff
from .errors import read_fault
from .policy import Question, lane_to, question_to
from .rate_limit.limiter import tokens_of


def paced(lm: Any, before: Callable[[], None] | None = None, patience: float = 600.0) -> Any:
    """The model, with an `acall` that looks for the answer on disk, and else waits for its turn to ask.

    It is the model itself where there is neither anything to look for nor to wait for. A server that says "too many"
    is asked again for so many seconds. `before` is called before each call, and may refuse it.
    """
    lane, backoff = lane_to(lm), Backoff()
    if lane is None and before is None:
        return lm
    # Where there is a line, it is we who ask again: dspy would, out of turn, and nobody would hear of "too many".
    one = lm.copy() if lane is None else lm.copy(num_retries=0)

    async def acall(prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        if before is not None:
            before()
        try:
            question = _question(lm, prompt, messages, options)
            found = None if question is None else question.find()
            if found is not None:
                return _told_again(one, prompt, messages, found)
            return await kept(question, in_turn(prompt, messages, options))
        finally:
            lm.history.extend(one.history)
            one.history.clear()

    async def kept(question: Question | None, answering: Awaitable[Any]) -> Any:
        if question is None:
            return await answering
        try:
            response = await answering
        except BaseException:
            question.failed()
            raise
        match response:
            case [str(text)] if one.history:  # calls of tools and the like are left to who asked for them
                call = RecordedCall.of(one.history[-1])
                used = {"tokens_in": call.tokens_in, "tokens_out": call.tokens_out}
                await question.keep({"text": text, "truncated": call.truncated, **used})
        return response

    async def in_turn(prompt: Any, messages: Any, options: dict[str, Any]) -> Any:
        if lane is None:
            return await type(lm).acall(one, prompt, messages=messages, **options)
        settings = {**one.kwargs, **options}
        most, until, failures = settings.get("max_tokens"), None, 0
        while True:
            place = await lane.enter(_size(prompt, messages), most, None)
            try:
                response = await type(lm).acall(one, prompt, messages=messages, **options)
            except Exception as error:
                fault = read_fault(error)
                if fault.kind == "rate":
                    pause, now = await lane.slow(place, fault.retry_after), time.monotonic()
                    until = until or now + patience
                    if now + max(pause, fault.retry_after or 0.0) > until:
                        raise
                    continue
                failures += 1
                pause = backoff.seconds(failures, fault.retry_after)
                if not fault.passing or failures > getattr(lm, "num_retries", 0) or pause > backoff.most * 1.1:
                    raise
                await asyncio.sleep(pause)
                continue
            await lane.settle(place, *_usage(one))
            return response

    one.acall = acall
    return one


def _question(lm: Any, prompt: Any, messages: Any, options: Mapping[str, Any]) -> Question | None:
    """What is asked, as the cache knows it; None where there is no cache for it."""
    if not all(isinstance(one, Mapping) for one in messages or []) or not (messages or isinstance(prompt, str)):
        return None
    asked = [(str(one.get("role")), one.get("content")) for one in messages or [{"role": "user", "content": prompt}]]
    turns = [(role, text if isinstance(text, str) else json.dumps(text, default=repr)) for role, text in asked]
    return question_to(lm, turns, None, options)


def _told_again(lm: Any, prompt: Any, messages: Any, found: Mapping[str, Any]) -> list[str]:
    """An answer that was on disk, in dspy's histories as every other, and for nothing."""
    response = {"choices": [{"finish_reason": "length" if found.get("truncated") else "stop"}], "cached": True}
    used = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 0)
    asked = messages or [{"role": "user", "content": prompt}]
    record_call(lm, asked, found["text"], used, response, lm.model, cost=0.0)
    return [found["text"]]


def _size(prompt: Any, messages: Any) -> float:
    texts = [str(one.get("content", "")) if isinstance(one, Mapping) else str(one) for one in messages or [prompt]]
    return tokens_of([("user", text) for text in texts], None)


def _usage(lm: Any) -> tuple[int, int]:
    call = RecordedCall.of(lm.history[-1]) if lm.history else None
    return (call.tokens_in, call.tokens_out) if call is not None else (0, 0)
