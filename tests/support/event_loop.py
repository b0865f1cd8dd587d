"""Whether an event loop goes on while something runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """How many times the event loop came round."""

    count = 0

    def were_taken(self) -> bool:
        """Whether the loop went on: one that is stalled takes no turn but the first and the last."""
        return self.count > 2


@contextlib.asynccontextmanager
async def turns_of_the_loop() -> AsyncIterator[Turns]:
    """Count the turns of the event loop, one every 10 ms at most, while the block runs."""
    turns = Turns()

    async def count() -> None:
        while True:
            await asyncio.sleep(0.01)
            turns.count += 1

    counting = asyncio.create_task(count())
    try:
        yield turns
    finally:
        counting.cancel()
