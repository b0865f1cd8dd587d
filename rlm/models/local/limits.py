"""Checks of the numbers that a caller gives, and of a prompt against the context window."""

from __future__ import annotations

from .errors import LocalModelError
from .types import Settings

DEFAULT_CONTEXT = 8192
LEAST_CONTEXT = 256


def check_numbers(context: int | None, parallel: int, threads: int | None) -> None:
    """Raise `LocalModelError` for numbers that no backend accepts."""
    least = (("context", context, LEAST_CONTEXT), ("parallel", parallel, 1), ("threads", threads, 1))
    for name, number, smallest in least:
        if number is not None and number < smallest:
            raise LocalModelError(f"{name} is {number}; it has to be at least {smallest}")


def check_penalties(settings: Settings, name: str) -> None:
    """Raise dspy's error for penalties, which only llama.cpp's server has."""
    penalties = [name for name in ("frequency_penalty", "presence_penalty") if getattr(settings, name)]
    if not penalties:
        return
    from dspy.utils.exceptions import LMUnsupportedFeatureError

    raise LMUnsupportedFeatureError(
        message=f"{name} has no {' and no '.join(penalties)}: leave it out, or run a GGUF file on llama.cpp's server",
        model=name,
        features=penalties,
    )


def check_context(prompt_tokens: int, context: int, name: str) -> None:
    """Raise dspy's context error, before anything is computed, if a prompt leaves no room for an answer."""
    if prompt_tokens < context:
        return
    from dspy.utils.exceptions import ContextWindowExceededError

    raise ContextWindowExceededError(
        message=f"the prompt has {prompt_tokens} tokens and {name} has a context of {context}", model=name
    )


def room_for(max_tokens: int, prompt_tokens: int, context: int) -> int:
    """Return how many tokens may be generated."""
    return min(max_tokens, context - prompt_tokens)
