"""Requests in the form of `dspy.lm15`, and the response that every way of calling a model returns."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Settings of the connection, which are no part of a request.
CLIENT = frozenset(
    {
        *("api_key", "api_base", "base_url", "headers", "extra_headers", "timeout", "api_version"),
        *("azure_ad_token_provider", "organization", "project", "extra_query", "custom_llm_provider"),
    }
)
# Settings of the call in dspy, which are no part of a request either.
_CALL = frozenset({"cache", "n", "num_generations", "rollout_id", "prompt_cache"})
# Settings that dspy's types have fields for. All others are sent as extensions.
_KNOWN = frozenset(
    {
        *("temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed", "stop", "frequency_penalty"),
        *("presence_penalty", "logprobs", "top_logprobs", "response_format", "service_tier", "store", "user"),
        *("reasoning_effort", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    }
)


def config_for(settings: Mapping[str, Any]) -> Any:
    """Return the generation settings among the keywords of an LM. Raises `ValueError` or `TypeError` for odd values."""
    given = {name: value for name, value in settings.items() if value is not None and name not in CLIENT | _CALL}
    cache = settings.get("prompt_cache")
    typed = [(name, type(value), value) for name, value in given.items()]  # True and 1 are the same key
    try:
        return _config(frozenset(typed), cache)
    except TypeError:  # a value cannot be hashed, or is odd: then this call raises
        return _config.__wrapped__(typed, cache)


@functools.lru_cache(64)
def _config(settings: Iterable[tuple[str, type, Any]], cache: Any) -> Any:
    from dataclasses import replace

    from dspy.lm15 import request_from_openai_chat

    given = {name: value for name, _, value in settings}
    body = {name: value for name, value in given.items() if name in _KNOWN}
    request = request_from_openai_chat({"model": "-", "messages": [{"role": "user", "content": "-"}], **body})
    extra = {name: value for name, value in given.items() if name not in _KNOWN and name != "extra_body"}
    extra |= given.get("extra_body", {})
    config = request.config
    if extra:
        config = replace(config, extensions={**(config.extensions or {}), **extra})
    return config if cache is None else replace(config, cache=cache)


def request_for(model: str, turns: Sequence[tuple[str, str]], system: str | None, config: Any) -> Any:
    """Return the request for turns of "user" and "assistant", and a system prompt."""
    from dspy.lm15 import Request

    message = _message if len(turns) > 1 else _message.__wrapped__
    messages = tuple(message(role, text) for role, text in turns)
    return Request(model=model, messages=messages, system=system, config=config)


@functools.lru_cache(256)
def _message(role: str, text: str) -> Any:
    """Return a turn in dspy's form. Conversations grow at their end: earlier turns come from the cache."""
    from dspy.lm15 import Message

    return Message.user(text) if role == "user" else Message.assistant(text)


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The text of a response, and what it cost."""

    text: str
    finish_reason: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    cached: bool = False
    """Whether dspy's cache had the response: then no server was asked."""

    @classmethod
    def of(cls, response: Any, cost_usd: float | None) -> ModelResponse:
        """Read a `dspy.lm15.Response`."""
        # Not `message.text`: that is empty when a model also shows its reasoning.
        text = "".join(part.text for part in response.message.parts if part.type == "text")
        usage, details = response.usage, response.provider_data
        if cost_usd is None and isinstance(details, dict):
            cost_usd = details.get("cost_usd")  # of an engine of rlm that was told the cost
        return cls(text, response.finish_reason, usage.input_tokens or 0, usage.output_tokens or 0, cost_usd)


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that is about to start."""

    model: str
    reason: str
    seconds: float
    """How long this wait takes."""

    expected: float
    """How long it takes until the model is asked, as far as is known: waits for a rate limit are checked in between."""

    queued: bool = False
    """Whether the call waits for the rate limit, behind others. That is no time of its run."""


OnWait = Callable[[Wait], None]
_callback: contextvars.ContextVar[OnWait | None] = contextvars.ContextVar("rlm_on_wait", default=None)


@contextlib.contextmanager
def on_wait(callback: OnWait) -> Iterator[None]:
    """Call `callback` before each wait inside the block, after the callbacks of outer blocks."""
    outer = _callback.get()

    def notify(wait: Wait) -> None:
        if outer is not None:
            outer(wait)
        callback(wait)

    token = _callback.set(notify)
    try:
        yield
    finally:
        _callback.reset(token)


_seconds_left: contextvars.ContextVar[Callable[[], float]] = contextvars.ContextVar(
    "rlm_seconds_left", default=lambda: math.inf
)


@contextlib.contextmanager
def retry_within(seconds_left: Callable[[], float]) -> Iterator[None]:
    """Begin no wait for another attempt inside the block that would take longer than the seconds left."""
    token = _seconds_left.set(seconds_left)
    try:
        yield
    finally:
        _seconds_left.reset(token)


def seconds_for_retries() -> float:
    """Return how long a wait for another attempt may take now."""
    return _seconds_left.get()()


async def wait(wait: Wait) -> None:
    """Announce a wait, and wait."""
    callback = _callback.get()
    if callback is not None:
        callback(wait)
    await asyncio.sleep(wait.seconds)
