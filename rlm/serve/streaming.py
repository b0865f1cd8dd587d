"""Server-sent events: a response that is written as its reader reads, and that ends when the reader is gone.

What waits for a slow reader is bounded: the buffer of the connection, and the feed, which forgets its oldest events. A
reader that reads nothing for a minute is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

QUIET_S = 10.0
"""After so many seconds without an event a comment is sent, so that nobody between takes the connection for dead."""

STALLED_S = 60.0
PING = b": still running\n\n"

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def event_bytes(data: str, kind: str | None = None, number: int | None = None) -> bytes:
    """Return one server-sent event. The data has no line breaks."""
    lines = [] if number is None else [f"id: {number}"]
    lines += [] if kind is None else [f"event: {kind}"]
    return "\n".join([*lines, f"data: {data}", "", ""]).encode("utf-8", "backslashreplace")


def json_event(data: Any, kind: str | None = None) -> bytes:
    """Return one server-sent event with a value."""
    return event_bytes(json.dumps(data, ensure_ascii=False), kind)


class EventStream:
    """An ASGI response of server-sent events."""

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        *,
        on_gone: Callable[[], None] | None = None,
        stalled_seconds: float = STALLED_S,
    ) -> None:
        """`on_gone` is called when the reader goes away before the end."""
        self._parts, self._on_gone, self._stalled = parts, on_gone, stalled_seconds

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Send the events."""
        writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            complete = writing.done() and writing.exception() is None
            if not complete and self._on_gone is not None:
                self._on_gone()
            if writing.done():
                writing.result()
        finally:
            for task in (writing, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _write(self, send: Callable[[MutableMapping[str, Any]], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            async for part in self._parts:
                async with asyncio.timeout(self._stalled):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        except TimeoutError:
            raise StalledReader(f"the reader of a stream read nothing for {self._stalled:.0f} s") from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class StalledReader(ConnectionError):
    """A reader does not read. Raised to end its connection."""


async def _until_gone(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
