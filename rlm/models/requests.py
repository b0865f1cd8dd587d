"""A conversation and the settings of a `dspy.LM`, as the request that dspy's engines take."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# How a model is reached: nothing that is sent to it.
CLIENT = frozenset(
    {
        *("api_key", "api_base", "base_url", "headers", "extra_headers", "timeout", "api_version"),
        *("azure_ad_token_provider", "organization", "project", "extra_query", "custom_llm_provider"),
    }
)
# How dspy makes the call: nothing that is sent, either.
_CALL = frozenset({"cache", "n", "num_generations", "rollout_id", "prompt_cache"})
# What dspy's types have a place for; everything else travels as it is.
_KNOWN = frozenset(
    {
        *("temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed", "stop", "frequency_penalty"),
        *("presence_penalty", "logprobs", "top_logprobs", "response_format", "service_tier", "store", "user"),
        *("reasoning_effort", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    }
)


def config_for(settings: Mapping[str, Any]) -> Any:
    """The generation settings among an LM's keyword arguments. Raises `ValueError` or `TypeError` for odd values."""
    given = {name: value for name, value in settings.items() if value is not None and name not in CLIENT | _CALL}
    cache = settings.get("prompt_cache")
    typed = [(name, type(value), value) for name, value in given.items()]  # True and 1 are the same key
    try:
        return _config(frozenset(typed), cache)
    except TypeError:  # something in it cannot be a key of the cache, or is odd: then this says so
        return _config.__wrapped__(typed, cache)


@functools.lru_cache(64)
def _config(settings: Iterable[tuple[str, type, Any]], cache: Any) -> Any:
    from dataclasses import replace

    from dspy.lm15 import request_from_openai_chat

    given = {name: value for name, _, value in settings}
    body = {name: value for name, value in given.items() if name in _KNOWN}
    read = request_from_openai_chat({"model": "-", "messages": [{"role": "user", "content": "-"}], **body})
    extra = {name: value for name, value in given.items() if name not in _KNOWN and name != "extra_body"}
    extra |= given.get("extra_body", {})
    config = read.config
    if extra:
        config = replace(config, extensions={**(config.extensions or {}), **extra})
    return config if cache is None else replace(config, cache=cache)


def request_for(model: str, turns: Sequence[tuple[str, str]], system: str | None, config: Any) -> Any:
    """The request: turns of "user" and "assistant", and what stands above them."""
    from dspy.lm15 import Request

    make = _message if len(turns) > 1 else _message.__wrapped__
    messages = tuple(make(role, text) for role, text in turns)
    return Request(model=model, messages=messages, system=system, config=config)


@functools.lru_cache(256)
def _message(role: str, text: str) -> Any:
    """A turn in dspy's form. Conversations grow at their end: what was said before is not made again each time."""
    from dspy.lm15 import Message

    return Message.user(text) if role == "user" else Message.assistant(text)
