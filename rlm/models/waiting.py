"""Waiting for a provider: for a rate limit, or until a server that refused a request can be asked again."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that is about to start."""

    model: str
    reason: str
    seconds: float
    """How long this wait takes."""

    expected: float
    """How long it takes until the model is asked, as far as is known: waits for a rate limit are checked in between."""


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


async def wait(wait: Wait) -> None:
    """Announce a wait, and wait."""
    callback = _callback.get()
    if callback is not None:
        callback(wait)
    await asyncio.sleep(wait.seconds)
