"""`Run`: the handle of a run. Its id, its events as they happen, its result, and what there is of an answer meanwhile.

run = rlm.Predict("log, question -> answer: int").start(log=text, question="How many errors?")
for event in run:
    print(event.kind)
result = run.result()
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from .events import Event, Observer, fan_out, ignore
from .results import ExecutionResult, Failed

T = TypeVar("T", default=Any)


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


class Loop(Protocol):
    """One run and its state: `rlm.repl.loop.RunLoop`, or the loop of a run with plans."""

    @property
    def id(self) -> str:
        """The id of the run, from the beginning."""

    def run(self) -> Coroutine[Any, Any, ExecutionResult[Any]]:
        """Run to the ending."""

    def partial_result(self) -> Failed:
        """Return what there is of an answer now."""


class Run(Generic[T]):
    """A run that was started, or is about to be. Use it from any thread.

    `await run` runs it in the event loop of the caller; `start` runs it in the background, in an event loop of a thread
    that all background runs share. A run that was started is iterable: its events, from the first one on.
    """

    def __init__(self, make: Callable[[Observer], Loop], observe: Observer = ignore, *, recorded: bool = False) -> None:
        """Make the loop of the run by `make(observer)`; nothing is started. `recorded`: whether an
        interruption names the run, because it can be resumed."""
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._background = self._emitted = self._cancelled = False
        self._recorded = recorded
        self._future: Future[ExecutionResult[Any]] = Future()
        self._task: asyncio.Task[Any] | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._loop = make(fan_out(observe, self._observe))

    @property
    def id(self) -> str:
        """The id of the run, under which its trace is found."""
        return self._loop.id

    @property
    def done(self) -> bool:
        """Whether the run has ended, in whatever way."""
        return self._future.done()

    def start(self) -> Run[T]:
        """Start the run in the background, and return it."""
        self._background = True
        context = contextvars.copy_context()  # dspy's settings are in it
        loop = _background_loop()
        loop.call_soon_threadsafe(lambda: context.run(lambda: loop.create_task(self._execute_in_background())))
        return self

    def result(self, timeout: float | None = None) -> ExecutionResult[T]:
        """Wait for the result of a run that was started. Raise `TimeoutError` if it takes longer than `timeout`.

        Ctrl-C cancels the run. The result of a run that was cancelled is `Failed`, with what there was of an answer.
        """
        if self._event_loop is not None and self._event_loop is _running_loop() and not self.done:
            raise RuntimeError("run.result() would block the event loop that the run is in; use `await run`")
        try:
            return self._future.result(timeout)
        except KeyboardInterrupt as error:
            self.cancel()
            self._add_note(error)
            raise

    def run_here(self) -> ExecutionResult[T]:
        """Run to the ending in this thread: as `start` and `result`, without a second thread."""
        try:
            return run_sync(self._execute)  # type: ignore[no-any-return]
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            self._add_note(error)
            raise

    def cancel(self) -> None:
        """Ask the run to stop. It is on record as unfinished, and can be resumed."""
        self._cancelled = True
        loop, task = self._event_loop, self._task
        if loop is not None and task is not None and not self.done:
            loop.call_soon_threadsafe(task.cancel)

    def partial_result(self) -> ExecutionResult[T]:
        """Return the result if there is one, or else what there is of an answer now, as `Failed`."""
        if self.done and self._future.exception() is None:
            return self._future.result()
        return self._loop.partial_result()

    def __await__(self) -> Generator[Any, None, ExecutionResult[T]]:
        if self._background or self.done:
            # Whoever awaits may be cancelled: the run goes on, and can still be asked to stop.
            return asyncio.shield(asyncio.wrap_future(self._future)).__await__()
        return self._execute().__await__()

    def __iter__(self) -> Iterator[Event]:
        """Yield the events from the first one on; the last is `RunEnded` or `RunInterrupted`."""
        position = 0
        while events := self._events_from(position):
            yield from events
            position += len(events)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """As `__iter__`, without stalling the event loop."""
        events = iter(self)
        while (event := await asyncio.to_thread(next, events, None)) is not None:
            yield event

    def _repr_html_(self) -> str:
        from .notebook_display import run_html

        return run_html(self)

    def __repr__(self) -> str:
        state = "ended" if self.done else "running" if self._background or self._task is not None else "not started"
        return f"Run({self.id!r}, {state})"

    def _events_from(self, position: int) -> list[Event]:
        """Wait for events that are not known yet; none once the run has ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) > position or self.done)
            return self._events[position:]

    def _observe(self, event: Event) -> None:
        self._emitted = True
        if self._background:
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()

    async def _execute(self) -> ExecutionResult[Any]:
        self._event_loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if self._cancelled:
                raise asyncio.CancelledError
            result = await self._loop.run()
        except asyncio.CancelledError as error:
            result = replace(self._loop.partial_result(), reason="interrupted")
            self._finish(result)
            if not self._cancelled:  # whoever awaits the run was cancelled
                self._add_note(error)
                raise
        except BaseException as error:
            self._finish(error=error)
            raise
        self._finish(result)
        return result

    async def _execute_in_background(self) -> None:
        """Run where nobody awaits the task. The future has the result, or the exception."""
        with contextlib.suppress(Exception):
            await self._execute()

    def _finish(self, result: ExecutionResult[Any] | None = None, error: BaseException | None = None) -> None:
        if not self._future.done():
            if error is not None:
                self._future.set_exception(error)
            elif result is not None:
                self._future.set_result(result)
        with self._changed:
            self._changed.notify_all()

    def _add_note(self, error: BaseException) -> None:
        if self._recorded and self._emitted:
            error.add_note(f"Run {self.id} is on record. To go on with it: rlm.Predict(...).resume({self.id!r})")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_background: asyncio.AbstractEventLoop | None = None
_background_lock = threading.Lock()


def _background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the background thread, which is started once in each process."""
    global _background
    with _background_lock:
        if _background is None or _background.is_closed():
            loop = _background = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="rlm-runs", daemon=True).start()
        return _background


def _forget_background_loop() -> None:
    """After a fork: the thread of the loop is in the parent."""
    global _background
    _background = None


os.register_at_fork(after_in_child=_forget_background_loop)
