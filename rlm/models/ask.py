"""Asking a dspy language model once, and saying what came of it: text, whether it was cut, tokens, cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class ModelError(Exception):
    """The model could not be asked. `kind` says why, in one word."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said."""

    text: str
    truncated: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


# By the name of dspy's exception, so that nothing here imports dspy: what went wrong, in our words.
_KINDS = {
    "ContextWindowExceededError": "context",
    "LMAuthError": "key",
    "LMBillingError": "billing",
    "LMRateLimitError": "rate",
    "LMTimeoutError": "timeout",
    "LMTransportError": "transport",
    "LMServerError": "server",
    "LMNotConfiguredError": "key",
    "LMUnsupportedModelError": "model",
}


async def ask(lm: Any, turns: Sequence[tuple[str, str]], *, system: str | None = None, **options: Any) -> Answer:
    """Ask `lm`, a `dspy.LM`. Raises `ModelError`. Retries for passing faults are the model's own, with its back-off."""
    from dspy.lm15 import Config, Message, Request

    messages = tuple(Message.user(text) if role == "user" else Message.assistant(text) for role, text in turns)
    settings = {
        name: value for name, value in {**lm.kwargs, **options}.items() if name in _CONFIG and value is not None
    }
    request = Request(model=lm.model, messages=messages, system=system, config=Config(**settings))
    one = lm.copy()  # its history holds this call alone, whatever else is asked at the same time
    try:
        response = await one.acall(request, cache=options.get("cache", lm.cache))
    except Exception as error:
        raise as_model_error(error) from error
    lm.history.extend(one.history)
    usage = response.usage
    return Answer(
        text=response.message.text or "",
        truncated=response.finish_reason == "length",
        tokens_in=usage.input_tokens or 0,
        tokens_out=usage.output_tokens or 0,
        cost_usd=one.history[-1].get("cost") if one.history else None,
    )


_CONFIG = {"temperature", "max_tokens", "top_p", "top_k", "seed", "stop"}


def as_model_error(error: Exception) -> ModelError:
    """The error in our words. Keys never are in the message: dspy keeps them out."""
    for kind in type(error).__mro__:
        if kind.__name__ in _KINDS:
            return ModelError(_KINDS[kind.__name__], f"{kind.__name__}: {error}")
    return ModelError("unknown", f"{type(error).__name__}: {error}")
