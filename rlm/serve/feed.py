"""The feed of a run: its events as short JSON, in a log of limited size that any number of readers follow.

A reader that is too slow misses the oldest events, and is told how many. It makes no run wait, and costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from ..events import (
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    Event,
    ExtractionAttempted,
    IterationStarted,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    ModelWaiting,
    RunEnded,
    RunInterrupted,
    RunStarted,
    TriggerFired,
)
from ..redaction import Redactor
from ..text import cut_middle, encodable

MAX_BYTES = 1_000_000
"""What a feed keeps for readers that come later, or are slow."""

_CODE_CHARS, _TEXT_CHARS, _WORD_CHARS = 8_000, 2_000, 200


@dataclass(frozen=True, slots=True)
class FeedItem:
    """One event. The numbers of a feed have no gaps."""

    number: int
    kind: str
    data: str
    """JSON without line breaks."""


class Feed:
    """The events of one run. Written to by its observer, from any thread; read in the server's event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_bytes: int = MAX_BYTES) -> None:
        self._loop, self._max_bytes = loop, max_bytes
        self._redactor = Redactor()
        self._guard = threading.Lock()
        self._items: deque[FeedItem] = deque()
        self._bytes = self._last = 0
        self._ended = False
        self._changed = asyncio.Event()

    def __call__(self, event: Event) -> None:
        """Add an event of the run; the observer."""
        if (data := summary(event)) is not None:
            self.add(event.kind, data)

    def add(self, kind: str, data: dict[str, Any]) -> None:
        """Add something to the feed, without secrets."""
        text = json.dumps(redacted(data, self._redactor), ensure_ascii=False)
        with self._guard:
            self._last += 1
            self._items.append(FeedItem(self._last, kind, encodable(text)))
            self._bytes += len(text)
            while self._bytes > self._max_bytes and len(self._items) > 1:
                self._bytes -= len(self._items.popleft().data)
        self._wake()

    def end(self) -> None:
        """Let readers come to their end."""
        self._ended = True
        self._wake()

    @property
    def size(self) -> int:
        """The bytes that it keeps."""
        return self._bytes

    async def follow(self, after: int = 0, quiet_seconds: float | None = None) -> AsyncIterator[FeedItem | None]:
        """Yield the events after a number, to the end of the run; None after so many seconds without one."""
        position = after
        while True:
            changed, ended = self._changed, self._ended
            items, missed = self._after(position)
            if missed:
                yield FeedItem(position + missed, "skipped", json.dumps({"events": missed}))
            for item in items:
                yield item
                position = item.number
                if self._first() > position + 1:
                    break  # the reader was slow, and what follows is gone: say so
            else:
                if ended:
                    return
                try:
                    await asyncio.wait_for(changed.wait(), quiet_seconds)
                except TimeoutError:
                    yield None

    def _after(self, position: int) -> tuple[list[FeedItem], int]:
        with self._guard:
            items = [item for item in self._items if item.number > position]
            first = items[0].number if items else position + 1
            return items, first - position - 1

    def _first(self) -> int:
        with self._guard:
            return self._items[0].number if self._items else 0

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def redacted(value: Any, redactor: Redactor) -> Any:
    """Return plain JSON values without secrets in their texts."""
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, dict):
        return {redactor.text(name): redacted(item, redactor) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, redactor) for item in value]
    return value


def summary(event: Event) -> dict[str, Any] | None:
    """Return what readers learn of an event; None for one that is left to the trace."""
    data = _summary(event)
    return None if data is None else {"run": event.run_id, "time": round(event.time, 3), **data}


def _summary(event: Event) -> dict[str, Any] | None:
    about: dict[str, Any]
    match event:
        case RunStarted():
            return {"signature": event.signature.text, "model": event.models.main, "parent": event.parent}
        case IterationStarted():
            return {"iteration": event.iteration}
        case ModelAsked():
            return {"model": event.model, "role": event.role, "iteration": event.iteration}
        case ModelAnswered():
            about = {"role": event.role, "iteration": event.iteration, "text": cut_middle(event.text, _TEXT_CHARS)}
            return about | {"seconds": event.seconds, "tokens_in": event.tokens_in, "tokens_out": event.tokens_out}
        case ModelFailed():
            return {"role": event.role, "error": event.error_kind, "message": cut_middle(event.message, _TEXT_CHARS)}
        case ModelWaiting():
            return {"model": event.model, "reason": event.reason, "seconds": event.seconds}
        case CellStarted():
            return {"iteration": event.iteration, "code": cut_middle(event.code, _CODE_CHARS)}
        case CellEnded():
            about = {"iteration": event.iteration, "output": cut_middle(event.output, _TEXT_CHARS)}
            return about | {"success": event.success, "seconds": event.seconds, "limit": event.limit}
        case CallStarted():
            return {"id": event.id, "name": event.name, "preview": cut_middle(event.preview, _WORD_CHARS)}
        case CallEnded():
            return {"id": event.id, "name": event.name, "seconds": event.seconds, "error": _short(event.error)}
        case BudgetUsed():
            about = {"iterations": event.iterations, "max_iterations": event.max_iterations, "seconds": event.seconds}
            return about | {"llm_calls": event.llm_calls, "tokens": event.tokens, "cost_usd": event.cost_usd}
        case TriggerFired():
            return {"reason": str(event.reason)}
        case ExtractionAttempted():
            return {"number": event.number, "problems": len(event.problems)}
        case RunEnded():
            return {"ending": event.result.status}
        case RunInterrupted():
            return {}
    return None


def _short(text: str | None) -> str | None:
    return None if text is None else cut_middle(text, _WORD_CHARS)
