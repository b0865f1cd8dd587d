"""`ItemRunner`: runs items in the event loop of a worker, several at once, and collects their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..item import Item
from . import run_item

_MAX_DELAY_S = 0.25


class ItemRunner:
    """Runs items, `at_once` at a time; the others wait for their turn, in order.

    A message costs driver and worker about a millisecond each, so outcomes are collected while there is other work:
    until the last item has had its turn, or the first outcome has waited for a moment.
    """

    def __init__(
        self, at_once: int, notify: Callable[[], None], on_rate_limit: Callable[[str], None] = lambda _: None
    ) -> None:
        """Call `notify` when there are outcomes to take, `on_rate_limit` with the key of an item that waits for one."""
        self.rate_limited: dict[str, float] = {}
        """When a running item was last waiting for a rate limit, by key."""

        self._at_once, self._notify, self._on_rate_limit = at_once, notify, on_rate_limit
        self._turns = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._outcomes: list[bytes] = []

    def start(self, item: Item) -> None:
        """Run an item as soon as it has its turn."""
        task = asyncio.create_task(self._run(item))
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def take_outcomes(self) -> list[bytes]:
        """Return the outcomes that were not taken before, as JSON."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    async def stop(self) -> None:
        """Abandon the running items."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, item: Item) -> bytes:
        def on_rate_limit() -> None:
            self.rate_limited[item.key] = time.monotonic()
            self._on_rate_limit(item.key)

        try:
            async with self._turns:
                return await run_item.run_encoded(item, on_rate_limit)
        finally:
            self.rate_limited.pop(item.key, None)

    def _on_done(self, task: asyncio.Task[bytes]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        self._outcomes.append(task.result())
        if len(self._tasks) <= self._at_once:
            self._notify()
        elif len(self._outcomes) == 1:
            task.get_loop().call_later(_MAX_DELAY_S, self._notify_late)

    def _notify_late(self) -> None:
        if self._outcomes:
            self._notify()
