"""Checks of the numbers that a caller gives, and of a prompt against the context window."""

from __future__ import annotations

from .errors import LocalModelError
from .types import Settings

DEFAULT_CONTEXT = 8192
LEAST_CONTEXT = 256


def check_numbers(context: int | None, parallel: int, threads: int | None) -> None:
    """Raise `LocalModelError` for numbers that no backend can do with."""
    least = (("context", context, LEAST_CONTEXT), ("parallel", parallel, 1), ("threads", threads, 1))
    for name, given, smallest in least:
        if given is not None and given < smallest:
            raise LocalModelError(f"{name} is {given}; it has to be at least {smallest}")


def check_penalties(settings: Settings, name: str) -> None:
    """Raise dspy's error for settings that only llama.cpp's server has."""
    given = [one for one in ("frequency_penalty", "presence_penalty") if getattr(settings, one)]
    if not given:
        return
    from dspy.utils.exceptions import LMUnsupportedFeatureError

    raise LMUnsupportedFeatureError(
        message=f"{name} has no {' and no '.join(given)}: leave it out, or run a GGUF file on llama.cpp's server",
        model=name,
        features=given,
    )


def check_context(prompt_tokens: int, context: int, name: str) -> None:
    """Raise dspy's context error, before anything is computed, if the prompt leaves no room for an answer."""
    if prompt_tokens < context:
        return
    from dspy.utils.exceptions import ContextWindowExceededError

    raise ContextWindowExceededError(
        message=f"the prompt has {prompt_tokens} tokens and {name} has a context of {context}", model=name
    )


def room_for(max_tokens: int, prompt_tokens: int, context: int) -> int:
    """How many tokens may be written."""
    return min(max_tokens, context - prompt_tokens)
