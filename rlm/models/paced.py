"""A model at everybody's pace for those who ask it by themselves: dspy's adapters do not go through `ask`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .faults import read_fault
from .pace import tokens_of
from .traffic import lane_to


def paced(lm: Any, before: Callable[[], None] | None = None, patience: float = 600.0) -> Any:
    """The model, with an `acall` that waits for its turn; the model itself where there is nothing to wait for.

    A server that says "too many" is asked again for so many seconds. `before` is called before each call, and may
    refuse it.
    """
    lane = lane_to(lm)
    if lane is None and before is None:
        return lm
    one = lm.copy()

    async def acall(prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        if before is not None:
            before()
        try:
            return await in_turn(prompt, messages, options)
        finally:
            lm.history.extend(one.history)
            one.history.clear()

    async def in_turn(prompt: Any, messages: Any, options: dict[str, Any]) -> Any:
        if lane is None:
            return await type(lm).acall(one, prompt, messages=messages, **options)
        settings = {**one.kwargs, **options}
        most, until = settings.get("max_tokens"), None
        while True:
            place = await lane.enter(_size(prompt, messages), most, None)
            try:
                response = await type(lm).acall(one, prompt, messages=messages, **options)
            except Exception as error:
                fault = read_fault(error)
                if fault.kind != "rate":
                    raise
                pause, now = await lane.slow(place, fault.retry_after), time.monotonic()
                until = until or now + patience
                if now + max(pause, fault.retry_after or 0.0) > until:
                    raise
                continue
            await lane.settle(place, *_usage(one))
            return response

    one.acall = acall
    return one


def _size(prompt: Any, messages: Any) -> float:
    texts = [str(one.get("content", "")) if isinstance(one, Mapping) else str(one) for one in messages or [prompt]]
    return tokens_of([("user", text) for text in texts], None)


def _usage(lm: Any) -> tuple[int, int]:
    used = (lm.history[-1].get("usage") if lm.history else None) or {}
    return int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
