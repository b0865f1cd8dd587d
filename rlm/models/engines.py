"""Models whose engine is ours, asked without the way through dspy: nothing to look up, no thread to change to.

dspy's way is taken where dspy has something to do: a cache, callbacks, a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dspy_bridge import is_observed, record_call
from .profile import profile_of
from .requests import config_for, request_for
from .response import ModelResponse


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
