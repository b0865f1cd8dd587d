"""What dspy keeps of a call to a model, in its form: for calls that do not go through dspy."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from typing import Any


def keep(
    lm: Any,
    messages: Sequence[Mapping[str, str]],
    text: str,
    usage: Mapping[str, Any],
    response: Any,
    response_model: str | None,
    cost: float | None = None,
) -> None:
    """Add a call to dspy's usage tracker and to its histories, where these are wanted."""
    from dspy import settings

    if settings.usage_tracker:
        settings.usage_tracker.add_usage(lm.model, usage)
    if settings.disable_history:
        return
    lm.update_history(
        {
            "prompt": None,
            "messages": [{**one, "role": "system"} if one["role"] == "developer" else one for one in messages],
            "kwargs": {"cache": False},
            "response": response,
            "outputs": [text],
            "usage": usage,
            "cost": cost,
            "timestamp": datetime.datetime.now().isoformat(),
            "uuid": _uuid4(),
            "model": lm.model,
            "response_model": response_model,
            "model_type": "chat",
            "cost_details": {"kind": "unknown", "reason": "no matching pricing entry"},
        }
    )


def _uuid4() -> str:
    """As `uuid.uuid4()` writes one, which asks the system each time."""
    bits = random.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def truncated(response: Any) -> bool:
    """Whether any answer in dspy's record of a response was cut off: its own kind, several of them, or a provider's."""
    if isinstance(response, tuple | list):
        return any(map(truncated, response))
    choices = response.get("choices") if isinstance(response, Mapping) else getattr(response, "choices", None)
    if choices:
        return any(_finish(choice) == "length" for choice in choices)
    return bool(_finish(response) == "length")


def _finish(what: Any) -> Any:
    return what.get("finish_reason") if isinstance(what, Mapping) else getattr(what, "finish_reason", None)
