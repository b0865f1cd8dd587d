"""A coroutine run to its end from code that is not asynchronous, and Ctrl-C meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


def run_sync(work: Callable[[], Any]) -> Any:
    """Run a coroutine function to its end from code that is not asynchronous, also where a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def interruptible() -> Any:
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        return await work()

    context = contextvars.copy_context()  # dspy's settings are in it
    with ThreadPoolExecutor(1) as executor:
        result = executor.submit(context.run, lambda: asyncio.run(interruptible()))
        try:
            while not wait([result], timeout=0.2).done:
                pass  # a signal that came to another thread is heard when this one wakes up
            return result.result()
        except KeyboardInterrupt:  # it interrupts this thread, which only waits
            for loop, task in running:
                loop.call_soon_threadsafe(task.cancel)
            raise
