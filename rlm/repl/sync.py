"""Running a coroutine from synchronous code, with Ctrl-C."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


class _ReusedLoop:
    """The event loop of the main thread, reused from run to run: making one takes as long as a quick cell.

    A loop in which tasks are left, or that was interrupted, is closed, as after `asyncio.run`. Timers and executor
    threads that a tool leaves in the loop stay there.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._parents: list[asyncio.Runner] = []
        atexit.register(self._at_exit)
        os.register_at_fork(after_in_child=self._forked)

    def run(self, work: Callable[[], Any]) -> Any:
        """Run as `asyncio.run` does."""
        runner = self._runner = self._open()
        results: list[Any] = []
        errors: list[Exception] = []

        async def caught() -> None:
            # `asyncio.Runner` calls `repr(task)`; keep the result out of it.
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
        """Cancel the tasks that are left in the loop, and close it."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _open(self) -> asyncio.Runner:
        if self._runner is not None and not self._runner.get_loop().is_closed():
            return self._runner
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        contextvars.Context().run(runner.get_loop)  # the loop keeps the context in which it is made
        return runner

    def _at_exit(self) -> None:
        """Close the loop only: at exit no thread can be started to wait for others."""
        if self._runner is not None:
            self._runner.get_loop().close()

    def _forked(self) -> None:
        """After a fork: the selector of the loop belongs to the parent, which would notice its closing."""
        if self._runner is not None:
            self._parents.append(self._runner)
            self._runner = None


_reused_loop = _ReusedLoop()


def run_sync(work: Callable[[], Any]) -> Any:
    """Run a coroutine function from synchronous code, also where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _reused_loop.run(work) if threading.current_thread() is threading.main_thread() else asyncio.run(work())
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
                pass  # Python handles signals when this thread wakes up
            return result.result()
        except KeyboardInterrupt:  # interrupts this thread, which only waits
            for loop, task in running:
                loop.call_soon_threadsafe(task.cancel)
            raise
