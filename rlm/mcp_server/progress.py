"""Progress notifications: what a run does, for the client that waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ..events import (
    ApprovalRequested,
    CellEnded,
    Event,
    IterationStarted,
    ModelWaiting,
    Observer,
    RunStarted,
    TriggerFired,
)


@contextlib.asynccontextmanager
async def reported(ctx: Any, total: int) -> AsyncIterator[Observer]:
    """Yield an observer of a run whose events are sent to the client as progress, `total` being its iterations."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, str]](maxsize=1_000)
    reporter = _Reporter(total)

    def observe(event: Event) -> None:
        if (report := reporter.report(event)) is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_put, waiting, report)

    async def send() -> None:
        while True:
            progress, message = await waiting.get()
            await ctx.report_progress(progress, float(total), message)

    await ctx.report_progress(0.0, float(total), "waiting for a free place")
    sender = asyncio.ensure_future(send())
    try:
        yield observe
    finally:
        sender.cancel()
        await asyncio.wait([sender])


class _Reporter:
    """Turns the events of one run into progress that only rises."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._run_id: str | None = None
        self._last = 0.0

    def report(self, event: Event) -> tuple[float, str] | None:
        """Return progress and message of an event; None for one that is not reported."""
        if isinstance(event, RunStarted) and self._run_id is None:
            self._run_id = event.run_id
            return self._risen(0.0, f"run {event.run_id} has started")
        if event.run_id != self._run_id:
            return None  # of a child run
        match event:
            case IterationStarted():
                return self._risen(event.iteration - 1.0, f"iteration {event.iteration}: the model writes code")
            case CellEnded():
                return self._risen(event.iteration - 0.5, f"iteration {event.iteration}: the code has run")
            case ModelWaiting():
                return self._risen(self._last, f"waiting {event.seconds:.0f} s for {event.model}: {event.reason}")
            case ApprovalRequested():
                return self._risen(self._last, f"waiting for an approval: rlm escalations show {event.approval_id}")
            case TriggerFired():
                return self._risen(self._total - 0.5, "a limit was reached: the answer is extracted")
        return None

    def _risen(self, progress: float, message: str) -> tuple[float, str]:
        self._last = max(self._last + 1e-3, min(progress, self._total))
        return self._last, message


def _put(waiting: asyncio.Queue[tuple[float, str]], report: tuple[float, str]) -> None:
    with contextlib.suppress(asyncio.QueueFull):  # the client does not read
        waiting.put_nowait(report)
