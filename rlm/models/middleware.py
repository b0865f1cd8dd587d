"""A `dspy.LM` wrapped with the response cache and the rate limiter, for adapters that call the LM directly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..dspy_bridge import RecordedCall, record_call
from .policy import CachedRequest, cached_request_for, rate_limiter_for
from .rate_limit.limiter import estimate_tokens
from .retry import AttemptsFailed, ModelAttempts, RetryPolicy


def with_middleware(lm: Any, before: Callable[[], None] | None = None) -> Any:
    """Return the model with an `acall` that uses the response cache and the rate limiter; `lm` itself without either.

    `before` is called before each call, and may prevent it by raising an exception.
    """
    limiter = rate_limiter_for(lm)
    if limiter is None and before is None:
        return lm
    # With a rate limiter, retries are made here: dspy's own would not respect it.
    copied = lm.copy() if limiter is None else lm.copy(num_retries=0)

    async def acall(prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        if before is not None:
            before()
        try:
            request = _cached_request(lm, prompt, messages, options)
            cached = None if request is None else request.get()
            if cached is not None:
                return _replay(copied, prompt, messages, cached)
            if request is None:
                return await call(prompt, messages, options)
            try:
                outputs = await call(prompt, messages, options)
            except BaseException:
                request.forget()
                raise
            match outputs:
                case [str(text)] if copied.history:  # tool calls and the like are not cached
                    recorded = RecordedCall.of(copied.history[-1])
                    used = {"tokens_in": recorded.tokens_in, "tokens_out": recorded.tokens_out}
                    await request.put({"text": text, "truncated": recorded.truncated, **used})
            return outputs
        finally:
            lm.history.extend(copied.history)
            copied.history.clear()

    async def call(prompt: Any, messages: Any, options: dict[str, Any]) -> Any:
        async def attempt() -> Any:
            return await type(lm).acall(copied, prompt, messages=messages, **options)

        if limiter is None:
            return await attempt()
        max_tokens = {**copied.kwargs, **options}.get("max_tokens")
        attempts = ModelAttempts(lm, RetryPolicy(), limiter, None, _size(prompt, messages), max_tokens)
        try:
            return await attempts.run(attempt, lambda _: _tokens(copied))
        except AttemptsFailed as failed:
            raise (failed.error or failed) from None

    copied.acall = acall
    return copied


def _cached_request(lm: Any, prompt: Any, messages: Any, options: Mapping[str, Any]) -> CachedRequest | None:
    """Return the request as the response cache identifies it; None where it is not cached."""
    if not all(isinstance(turn, Mapping) for turn in messages or []) or not (messages or isinstance(prompt, str)):
        return None
    asked = [(str(turn.get("role")), turn.get("content")) for turn in messages or [{"role": "user", "content": prompt}]]
    turns = [(role, text if isinstance(text, str) else json.dumps(text, default=repr)) for role, text in asked]
    return cached_request_for(lm, turns, None, options)


def _replay(lm: Any, prompt: Any, messages: Any, cached: Mapping[str, Any]) -> list[str]:
    """Return a cached answer, recorded in dspy's history without usage or cost."""
    response = {"choices": [{"finish_reason": "length" if cached.get("truncated") else "stop"}], "cached": True}
    used = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 0)
    asked = messages or [{"role": "user", "content": prompt}]
    record_call(lm, asked, cached["text"], used, response, lm.model, cost=0.0)
    return [cached["text"]]


def _size(prompt: Any, messages: Any) -> float:
    texts = [str(turn.get("content", "")) if isinstance(turn, Mapping) else str(turn) for turn in messages or [prompt]]
    return estimate_tokens([("user", text) for text in texts], None)


def _tokens(lm: Any) -> tuple[int, int]:
    call = RecordedCall.of(lm.history[-1]) if lm.history else None
    return (call.tokens_in, call.tokens_out) if call is not None else (0, 0)
