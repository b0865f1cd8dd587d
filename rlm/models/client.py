"""The client of the models: one call with retries, the rate limit and the response cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..dspy_bridge import call_lm, is_observed, record_call
from ..errors import RlmError
from .errors import Refused
from .policy import cached_request_for, rate_limiter_for
from .profile import profile_of, protect_keys
from .requests import ModelResponse, config_for, request_for
from .retry import AttemptsFailed, ModelAttempts, RetryPolicy


class ModelError(RlmError):
    """A model call failed.

    `kind` is the cause: key, billing, rate, timeout, transport, server, context, model, refused or unknown. `waited` is
    how many seconds were spent between attempts and waiting for the rate limit, `queued` those for the rate limit.
    """

    def __init__(self, kind: str, message: str, waited: float = 0.0, queued: float = 0.0) -> None:
        super().__init__(message)
        self.kind = kind
        self.waited, self.queued = waited, queued


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a model."""

    text: str
    truncated: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    waited: float = 0.0
    """Seconds spent between attempts and waiting for the rate limit."""

    queued: float = 0.0
    """Those of them that were spent waiting for the rate limit."""

    cached: bool = False
    """Whether a cache had it: then it cost nothing, and used no tokens."""

    calls: tuple[Any, ...] = ()
    """The calls that it took, where an adapter was asked; the last one gave it."""


async def ask(
    lm: Any,
    turns: Sequence[tuple[str, str]],
    *,
    system: str | None = None,
    deadline: float | None = None,
    retry: RetryPolicy | None = None,
    **options: Any,
) -> Answer:
    """Ask a `dspy.LM`. Raises `ModelError`, after the attempts that `retry` and the model's `num_retries` allow.

    `deadline` is a time of `time.monotonic()` at which the call fails. `options` override the settings of the model.
    Under a `RequestPolicy`, the answer may come from the response cache, and the call waits for the rate limit.
    """
    protect_keys(lm)
    retry = retry or RetryPolicy()
    cached_request = cached_request_for(lm, turns, system, options)
    if cached_request is None:
        return await _ask(lm, turns, system, deadline, retry, options)
    cached = cached_request.get()
    if cached is not None:
        return Answer(cached["text"], bool(cached.get("truncated")), cost_usd=0.0, cached=True)
    try:
        answer = await _ask(lm, turns, system, deadline, retry, options)
    except BaseException:
        cached_request.forget()
        raise
    await cached_request.put(
        {"text": answer.text, "truncated": answer.truncated, "tokens_in": answer.tokens_in}
        | {"tokens_out": answer.tokens_out, "cost_usd": answer.cost_usd}
    )
    return answer


async def _ask(
    lm: Any,
    turns: Sequence[tuple[str, str]],
    system: str | None,
    deadline: float | None,
    retry: RetryPolicy,
    options: dict[str, Any],
) -> Answer:
    limiter = rate_limiter_for(lm)
    attempts = ModelAttempts(lm, retry, limiter, deadline)
    if limiter is not None:
        from .rate_limit.limiter import estimate_tokens

        settings = {**lm.kwargs, **options}
        attempts.tokens_in = estimate_tokens(turns, system)
        attempts.max_tokens = settings.get("max_tokens") or settings.get("max_completion_tokens")
    failed = None
    try:
        answer = await attempts.run(lambda: _attempt(lm, turns, system, options), _tokens)
    except AttemptsFailed as error:
        failed = ModelError(error.kind, error.message, error.waited, error.queued)
    if failed is not None:
        raise failed  # outside of the `except` block: the error of an attempt may contain the key
    return replace(answer, waited=attempts.waited, queued=attempts.queued) if attempts.waited else answer


def _tokens(answer: Answer) -> tuple[int, int]:
    return answer.tokens_in, answer.tokens_out


async def _attempt(lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: dict[str, Any]) -> Answer:
    if (engine := engine_of(lm)) is not None:
        return _answer(lm, await ask_engine(engine, lm, turns, system, options))
    from .direct.routing import direct_client  # scripted and local models never need it

    client = direct_client(lm, options)
    # An empty text has a form of its own in a request.
    if client is not None and all(text for _, text in turns):
        return _answer(lm, await client.ask(lm, turns, system))
    return _answer(lm, await _ask_dspy(lm, turns, system, options))


def _answer(lm: Any, response: ModelResponse) -> Answer:
    if response.finish_reason == "content_filter":
        raise Refused(response.text[:200])
    truncated = response.finish_reason == "length"
    if response.cached:
        return Answer(response.text, truncated, cost_usd=0.0, cached=True)
    cost = profile_of(lm).cost(response.tokens_in, response.tokens_out, response.cost_usd)
    return Answer(response.text, truncated, response.tokens_in, response.tokens_out, cost)


async def _ask_dspy(
    lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: dict[str, Any]
) -> ModelResponse:
    """Make one attempt with dspy: its cache, its callbacks, any provider or engine."""
    settings = {**lm.kwargs, **options}
    request = request_for(lm.model, turns, system, config_for(settings))
    call = {"cache": options.get("cache", lm.cache)}
    if settings.get("rollout_id") is not None:
        call["rollout_id"] = settings["rollout_id"]
    response, recorded = await call_lm(lm, request, **call)
    if recorded is None:
        return ModelResponse.of(response, None)
    return replace(ModelResponse.of(response, recorded.cost_usd), cached=recorded.cached)


def engine_of(lm: Any) -> Any:
    """Return the asynchronous engine of a model in this process; None if dspy takes part in its calls."""
    engine = profile_of(lm).engine
    return None if engine is None or lm.cache or is_observed(lm) else engine


async def ask_engine(
    engine: Any, lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: Mapping[str, Any]
) -> ModelResponse:
    """Make one attempt, and record it in dspy's histories and usage tracker."""
    request = request_for(lm.model, turns, system, config_for({**lm.kwargs, **options}))
    reply = ModelResponse.of(await engine.complete(request), None)
    asked = [("system", system), *turns] if system is not None else turns
    used = {"prompt_tokens": reply.tokens_in, "completion_tokens": reply.tokens_out}
    used["total_tokens"] = reply.tokens_in + reply.tokens_out
    response = {"choices": [{"finish_reason": reply.finish_reason}]}
    record_call(lm, [{"role": role, "content": text} for role, text in asked], reply.text, used, response, lm.model)
    return reply
