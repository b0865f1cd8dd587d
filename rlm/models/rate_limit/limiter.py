"""The rate limiter of one model: a caller acquires a slot before each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..profile import settings_of
from ..requests import Wait, wait
from .bucket import Limit, Slot
from .store import Store

_CHECK_S = 2.0
"""A waiting caller checks this often whether its slot is due earlier or later than before."""
_CHARS_PER_TOKEN = 4


class SlotAfterDeadline(Exception):
    """The next slot is due after the deadline of the call."""

    def __init__(self, requests_ahead: int = 0) -> None:
        super().__init__(requests_ahead)
        self.requests_ahead = requests_ahead


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Access to the bucket of one model."""

    store: Store
    key: str
    limit: Limit
    model: str = ""

    async def acquire(self, tokens_in: float, max_tokens_out: float | None, deadline: float | None) -> Slot:
        """Wait for the next slot. Raises `SlotAfterDeadline`; the deadline is a time of `time.monotonic()`."""
        while True:
            slot: Slot = await self.store.apply(self.key, "reserve", self.limit, tokens_in, max_tokens_out)
            left: float | None = slot.due_in
            try:
                while left is not None and left > 0:
                    if deadline is not None and time.monotonic() + left > deadline:
                        raise SlotAfterDeadline(slot.requests_ahead)
                    await wait(Wait(self.model, "rate limit", min(left, _CHECK_S), left, queued=True))
                    left = await self.store.apply(self.key, "remaining", slot)
            except (SlotAfterDeadline, asyncio.CancelledError):
                self.store.post(self.key, "cancel", slot)
                raise
            if left is not None:
                return slot

    async def settle(self, slot: Slot, tokens_in: int, tokens_out: int) -> None:
        """Report the usage of an answered request. A server that reports none leaves the estimate."""
        if self.limit.tokens is not None and tokens_in + tokens_out > 0:
            await self.store.apply(self.key, "settle", self.limit, slot, tokens_in, tokens_out)

    async def slow_down(self, slot: Slot, retry_after: float | None) -> float:
        """Slow down all callers after a refusal. Return in how many seconds to try again."""
        return float(await self.store.apply(self.key, "slow_down", self.limit, slot, retry_after))


def limiter_key(lm: Any) -> str:
    """Return the key of a model: models of the same name at the same address share a bucket."""
    settings = settings_of(lm)
    parts = urlsplit(str(settings.get("api_base") or settings.get("base_url") or ""))
    return f"{lm.model} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def estimate_tokens(turns: Sequence[tuple[str, str]], system: str | None) -> float:
    """Return about how many tokens a request has."""
    return (len(system or "") + sum(len(text) for _, text in turns)) / _CHARS_PER_TOKEN
