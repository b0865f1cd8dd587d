"""The actors of a Ray cluster: a worker that runs items, and the rate limits that all workers share.

Both are plain classes, which `ray.py` turns into actors. Items and outcomes travel as JSON, as in `messages.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ..item import Item
from ..worker import messages
from .base import WorkerConfig


class ItemActor:
    """Runs items, several at once, in its event loop. Their sandboxes run on the same machine."""

    def __init__(self, config: bytes, at_once: int, rate_limits: Any) -> None:
        """`rate_limits` is the actor with the shared rate limits; None: processes of one machine share a file."""
        import rlm.runner  # noqa: F401

        from ..worker import run_item
        from ..worker.item_runner import ItemRunner

        settings = WorkerConfig.from_dict(messages.unpack(config))
        if settings.home is not None and not Path(settings.home).is_dir():
            settings = dataclasses.replace(settings, home=None)  # a directory of another machine
        run_item.prepare(settings)
        if rate_limits is not None:
            from ...models.policy import RequestPolicy, use

            use(RequestPolicy(**settings.traffic or {}), store=RayStore(rate_limits))
        self._runner = ItemRunner(at_once, self._notify)
        self._call: asyncio.Future[None] | None = None
        """The future that the current call of `exchange` awaits."""

        self._has_outcomes = False
        self._next_number = 0
        self._early: dict[int, list[dict[str, Any]]] = {}
        """Items of calls that arrived before an earlier one, by the number of the call."""

    async def ready(self) -> dict[str, Any]:
        """Return where the actor runs, and its versions."""
        from rlm import __version__

        return {"host": socket.gethostname(), "pid": os.getpid(), "rlm": __version__, "python": sys.executable}

    async def exchange(self, request: bytes) -> bytes:
        """Start items; wait until there are outcomes, of these items or earlier ones, and return them.

        Calls are numbered, because Ray may deliver them in any order: items start in the order in which they were
        sent. Only the call with the highest number waits; the others return without outcomes.
        """
        message = messages.unpack(request)
        self._early[message["number"]] = message["items"]
        is_last = message["number"] == max(self._early)
        self._start_in_order()
        if not is_last:
            return _response([])
        if self._call is not None and not self._call.done():
            self._call.set_result(None)
        call = self._call = asyncio.get_running_loop().create_future()
        if not self._has_outcomes:
            await call
        if self._call is not call:
            return _response([])
        self._call, self._has_outcomes = None, False
        return _response(self._runner.take_outcomes())

    async def rate_limited_since(self, key: str) -> float | None:
        """Return how many seconds ago an item was last waiting for a rate limit; None if it never was."""
        since = self._runner.rate_limited.get(key)
        return None if since is None else time.monotonic() - since

    async def stop(self) -> None:
        """Abandon the running items and write all traces to disk."""
        from ..worker import run_item

        await self._runner.stop()
        await asyncio.to_thread(run_item.flush_traces)

    def _start_in_order(self) -> None:
        while (items := self._early.pop(self._next_number, None)) is not None:
            self._next_number += 1
            for item in items:
                self._runner.start(Item.from_dict(item))

    def _notify(self) -> None:
        self._has_outcomes = True
        if self._call is not None and not self._call.done():
            self._call.set_result(None)


class RateLimitActor:
    """Keeps the rate-limit state of all models for all workers of a batch, by its own clock."""

    def __init__(self) -> None:
        from ...models.rate_limit.store import MemoryStore

        self._store = MemoryStore()

    async def apply(self, key: str, operation: str, args: tuple[Any, ...]) -> Any:
        """Apply an operation to the state of a model: see `rlm.models.rate_limit.store`."""
        return await self._store.apply(key, operation, *args)


class RayStore:
    """A rate-limit store whose state is in a `RateLimitActor`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def apply(self, key: str, operation: str, *args: Any) -> Any:
        """Apply an operation and return its result. Raises `OSError` if the actor is gone."""
        from ray.exceptions import RayError

        try:
            return await self._actor.apply.remote(key, operation, args)
        except RayError as error:
            raise OSError(f"the actor with the rate limits is gone: {str(error).strip().splitlines()[0]}") from None

    def post(self, key: str, operation: str, *args: Any) -> None:
        """Apply an operation without waiting for its result."""
        self._actor.apply.remote(key, operation, args)


def _response(outcomes: list[bytes]) -> bytes:
    return b'{"outcomes":[%b]}' % b",".join(outcomes)
