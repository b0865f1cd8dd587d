"""A coroutine run to its end from code that is not asynchronous, and Ctrl-C meanwhile."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


class _Kept:
    """The main thread's event loop, kept from one run to the next: one that was made anew would cost a quick cell.

    A loop in which tasks were left, or that was interrupted, is closed, as after `asyncio.run`. What else a tool leaves
    in a loop stays there: timers, threads of its executor.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._parents: list[asyncio.Runner] = []
        atexit.register(self._at_exit)
        os.register_at_fork(after_in_child=self._forked)

    def run(self, work: Callable[[], Any]) -> Any:
        """As `asyncio.run`."""
        runner = self._runner = self._open()
        results: list[Any] = []
        errors: list[Exception] = []

        async def caught() -> None:
            # Nothing of it stays in the task: the runner, looking at its signals, has the task write itself down.
            try:
                results.append(await work())
            except Exception as error:
                errors.append(error)

        try:
            runner.run(caught(), context=contextvars.copy_context())  # dspy's settings are in it
        finally:
            if not (results or errors) or asyncio.all_tasks(runner.get_loop()):
                self.close()
        if errors:
            raise errors.pop()
        return results[0]

    def close(self) -> None:
        """Cancel what is left in the loop, and close it."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _open(self) -> asyncio.Runner:
        if self._runner is not None and not self._runner.get_loop().is_closed():
            return self._runner
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        contextvars.Context().run(runner.get_loop)  # it keeps the context in which it was made
        return runner

    def _at_exit(self) -> None:
        """Close the loop and nothing more: no thread can be started any longer to wait for others."""
        if self._runner is not None:
            self._runner.get_loop().close()

    def _forked(self) -> None:
        """In a forked child: what the loop waits with is the parent's, and closing it would be felt there."""
        if self._runner is not None:
            self._parents.append(self._runner)
            self._runner = None


_kept = _Kept()


def run_sync(work: Callable[[], Any]) -> Any:
    """Run a coroutine function to its end from code that is not asynchronous, also where a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _kept.run(work) if threading.current_thread() is threading.main_thread() else asyncio.run(work())
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
