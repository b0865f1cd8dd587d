"""Blocking work on a thread of its own, as a future or an awaitable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def threaded(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run `work` on a new thread and return an awaitable of its result."""
    return asyncio.wrap_future(start_thread(work))


def start_thread(work: Callable[[], T]) -> Future[T]:
    """Run `work` on a new thread: it may block for long, and must not queue behind other work."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # cancelling the waiter does not stop the work

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="rlm-session").start()
    return future
