"""One run under a view: events go to the view, Ctrl-C asks the run to stop, a second one does not ask."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..events import Event, fan_out, ignore
from ..repl.replay import RecordedRun
from ..results import ExecutionResult
from ..run import Run
from ..tasks import Task
from ..traces.writer import TraceWriter
from .progress.state import RunState
from .telemetry import telemetry

T = TypeVar("T")
_FLUSH_S = 10.0


class View(Protocol):
    """Shows a run to somebody."""

    def start(self, task: Task) -> None:
        """Called before the run."""

    def observe(self, event: Event) -> None:
        """Called for each event, from any thread."""

    def stop(self) -> None:
        """Called after the run, however it ended."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    result: ExecutionResult[Any]
    interrupted: bool


def drive(task: Task, view: View, state: RunState, *, past: RecordedRun | None = None, record: bool = True) -> Outcome:
    """Run a task to its end, or until somebody interrupts it. It is on record unless `record` is off."""
    from ..runner import make_run
    from ..traces.default_writer import default_observer

    writer, spans = default_observer() if record else ignore, telemetry()
    state.limits = task.trigger
    view.start(task)
    try:
        run = make_run(task, observe=fan_out(writer, _guarded(view), spans), past=past)
        result, interrupted = asyncio.run(_until_interrupted(run))
        return Outcome(result, interrupted)
    finally:
        view.stop()
        if isinstance(writer, TraceWriter):
            writer.flush(_FLUSH_S)


async def _until_interrupted(run: Run) -> tuple[ExecutionResult[Any], bool]:
    """Return the result, and whether Ctrl-C was pressed. The first one cancels the run, a second one does not wait."""
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt
        run.cancel()

    with on_interrupt(interrupt):
        return await run, interrupts > 0


async def until_interrupted(work: Coroutine[Any, Any, T]) -> tuple[T | None, bool]:
    """What comes of the work, None where Ctrl-C ended it, and whether there was one. A second one does not wait."""
    running = asyncio.ensure_future(work)
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt
        running.cancel()

    with on_interrupt(interrupt):
        try:
            return await running, interrupts > 0  # it may have come to its own end all the same
        except asyncio.CancelledError:
            if not interrupts:
                raise
            return None, True


@contextlib.contextmanager
def on_interrupt(handler: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls the handler, where this is the main thread."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, handler)
    except (ValueError, RuntimeError, NotImplementedError):  # not the main thread: then Ctrl-C goes elsewhere, too
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _guarded(view: View) -> Callable[[Event], None]:
    """The view's `observe`. If it fails, the run goes on without it, and says so."""
    failed = False

    def observe(event: Event) -> None:
        nonlocal failed
        if failed:
            return
        try:
            view.observe(event)
        except Exception as error:
            if os.environ.get("RLM_DEBUG") == "1":
                raise
            failed = True
            view.stop()
            print(f"rlm: the view stopped ({type(error).__name__}: {error}); the run goes on", file=sys.stderr)  # noqa: T201

    return observe
