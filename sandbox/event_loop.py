"""An `Exchange` driven by an asyncio event loop."""

from __future__ import annotations

import asyncio

from .exchange import ENDS, Death, Exchange
from .link import Link
from .threads import threaded

_EARLY_SECONDS = 0.001


async def drive(exchange: Exchange, link: Link) -> Death | None:
    """Drive an exchange to its end. Return why the kernel is gone, if it is and no limit says so."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[Exception | None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    def turn() -> None:
        nonlocal timer
        if over.done():
            return
        try:
            exchange.take(link.look())
            if exchange.done:
                over.set_result(None)
                return
            now = loop.time()
            due = now + exchange.pause()
            if timer is None or not now < timer.when() <= due + _EARLY_SECONDS:  # after a host call it still stands
                if timer is not None:
                    timer.cancel()
                timer = loop.call_at(due, turn)
        except ENDS as end:
            over.set_result(end)
        except BaseException as error:
            over.set_exception(error)

    loop.add_reader(link.fileno(), turn)
    turn()
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
        await asyncio.wait([ending])  # it reads from descriptors that would be closed now
        raise
