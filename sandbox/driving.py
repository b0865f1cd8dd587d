"""An exchange driven by an event loop; and what may block, done in a thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from .exchange import ENDS, Death, Exchange
from .link import Link

T = TypeVar("T")


async def finish(exchange: Exchange, link: Link) -> Death | None:
    """Drive an exchange to its end from the event loop. Why the kernel is gone, if it is and no limit says so."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[Exception | None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        if over.done():
            return
        try:
            exchange.take(link.look())
            if exchange.done:
                over.set_result(None)
                return
            if timer is not None:
                timer.cancel()
            timer = loop.call_later(exchange.pause(), look)
        except ENDS as end:
            over.set_result(end)
        except BaseException as error:
            over.set_exception(error)

    loop.add_reader(link.fileno(), look)
    look()
    try:
        end = await over
    finally:
        loop.remove_reader(link.fileno())
        if timer is not None:
            timer.cancel()
    if end is None:
        return None
    ending = threaded(lambda: exchange.ended(end))
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])  # it reads from what would be closed now
        raise


async def now_or_threaded(work: Callable[[], T], now: bool) -> T:
    """A kernel that does not read may keep whoever sends to it waiting, but not the event loop."""
    return work() if now else await threaded(work)


def threaded(work: Callable[[], T]) -> asyncio.Future[T]:
    """Await what a thread does."""
    return asyncio.wrap_future(in_a_thread(work))


def in_a_thread(work: Callable[[], T]) -> Future[T]:
    """Do it in a thread of its own: it may take long, and must not wait for others."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # whoever stops waiting for it does not stop it

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=do, daemon=True, name="rlm-session").start()
    return future
