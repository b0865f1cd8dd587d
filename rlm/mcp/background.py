"""The event loop of MCP servers: one thread for the process. A server that floods keeps no run's event loop busy.

Each connection is entered and left by one task of this loop, as the cancel scopes of the package `mcp` ask for.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_THREAD = "rlm-mcp"
_LIBRARIES = ("mcp", "client", "httpx2", "httpcore2")

_loop: asyncio.AbstractEventLoop | None = None
_lock = threading.Lock()


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, which is started when it is first needed."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            loop = _loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
        return _loop


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine in the loop and return its future. Nothing of the caller's context is seen there."""
    return contextvars.Context().run(asyncio.run_coroutine_threadsafe, work, event_loop())


async def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the loop, from another one. Cancelling it cancels the work."""
    return await asyncio.wrap_future(submit(work))


def keep_out_of_logs() -> None:
    """Drop what the libraries log in this thread: it quotes servers, whose text is neither cleaned nor redacted."""
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in _LIBRARIES:
            logging.getLogger(name).addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD


def _forget() -> None:
    """After a fork: the thread is in the parent."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
