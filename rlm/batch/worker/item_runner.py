"""What runs in a worker, in whatever process it is: items, several at once, and their outcomes, told together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..item import Item
from . import run_item

_TOGETHER_S = 0.25


class Running:
    """Runs the items that it is given, `at_once` at a time; the others wait for their turn.

    To tell a driver something costs about a millisecond of both, so outcomes are told together while there is other
    work: when the last item has had its turn, or the first outcome has waited for a moment.
    """

    def __init__(self, at_once: int, tell: Callable[[], None], waits: Callable[[str], None] = lambda _: None) -> None:
        """`tell` is called when there are outcomes to take; `waits` with the key of an item that waits for a model."""
        self.waited: dict[str, float] = {}
        """When an item that runs last waited for its turn to ask a model, by key."""

        self._at_once, self._tell, self._waits = at_once, tell, waits
        self._turns = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._outcomes: list[bytes] = []

    def start(self, item: Item) -> None:
        """Run an item as soon as there is room."""
        task = asyncio.create_task(self._run(item))
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def take(self) -> list[bytes]:
        """The outcomes that nobody has taken yet, as JSON."""
        taken, self._outcomes = self._outcomes, []
        return taken

    async def stop(self) -> None:
        """Drop what runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, item: Item) -> bytes:
        def waits() -> None:
            self.waited[item.key] = time.monotonic()
            self._waits(item.key)

        try:
            async with self._turns:
                return await run_item.encoded_outcome(item, waits)
        finally:
            self.waited.pop(item.key, None)

    def _end(self, task: asyncio.Task[bytes]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        self._outcomes.append(task.result())
        if len(self._tasks) <= self._at_once:
            self._tell()
        elif len(self._outcomes) == 1:
            task.get_loop().call_later(_TOGETHER_S, self._late)

    def _late(self) -> None:
        if self._outcomes:
            self._tell()
