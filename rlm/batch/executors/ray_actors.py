"""What runs in the actors of a Ray cluster: a worker that runs items, and the pace that all workers keep.

Plain classes: `ray.py` makes actors of them. What goes in and comes out is JSON in bytes, as in `frames.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ..item import Item
from ..worker import messages
from .base import Setting


class ItemActor:
    """Runs items, many at once, in its event loop. Their sandboxes run where it runs."""

    def __init__(self, setting: bytes, at_once: int, board: Any) -> None:
        """`board` is the actor that keeps the pace; None: processes of one machine keep it by themselves."""
        import rlm.runner  # noqa: F401

        from ..worker import run_item
        from ..worker.item_runner import Running

        said = Setting.from_dict(messages.unpack(setting))
        if said.home is not None and not Path(said.home).is_dir():
            said = dataclasses.replace(said, home=None)  # a folder of another machine
        run_item.prepare(said)
        if board is not None:
            from ...models.policy import Traffic, use

            use(Traffic(**said.traffic or {}), board=RayBoard(board))
        self._running = Running(at_once, self._tell)
        self._asked: asyncio.Future[None] | None = None
        """What the call waits for that is to be told of outcomes."""

        self._untold = False

    async def ready(self) -> dict[str, Any]:
        """Who it is."""
        from rlm import __version__

        return {"host": socket.gethostname(), "pid": os.getpid(), "rlm": __version__, "python": sys.executable}

    async def exchange(self, items: bytes) -> bytes:
        """Take items, and wait until something is told of these and earlier ones: what became of them.

        A later call takes the place of one that waits: that one ends, and has nothing to tell.
        """
        earlier, self._asked = self._asked, asyncio.get_running_loop().create_future()
        if earlier is not None and not earlier.done():
            earlier.set_result(None)
        for item in messages.unpack(items)["items"]:
            self._running.start(Item.from_dict(item))
        asked = self._asked
        if not self._untold:
            await asked
        told = b""
        if self._asked is asked:
            self._asked, self._untold = None, False
            told = b",".join(self._running.take())
        return b'{"outcomes":[%b]}' % told

    def _tell(self) -> None:
        self._untold = True
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    async def waited(self, key: str) -> float | None:
        """How many seconds ago an item waited for its turn to ask a model; None if it did not."""
        since = self._running.waited.get(key)
        return None if since is None else time.monotonic() - since

    async def stop(self) -> None:
        """Drop what runs, and write the traces down."""
        from ...paths import home
        from ...traces.default_writer import flush_writers

        await self._running.stop()
        await asyncio.to_thread(flush_writers, home())


class PaceActor:
    """Keeps the gauges of all models, for all workers of a batch, by its own clock."""

    def __init__(self) -> None:
        from ...models.rate_limit.store import MemoryBoard

        self._board = MemoryBoard()

    async def do(self, name: str, verb: str, about: tuple[Any, ...]) -> Any:
        """See `rlm.models.rate_limit.store.Board`."""
        return await self._board.do(name, verb, *about)


class RayBoard:
    """The same board for each worker: an actor that is asked."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def do(self, name: str, verb: str, *about: Any) -> Any:
        """Ask the actor. Raises `OSError` where it is gone."""
        from ray.exceptions import RayError

        try:
            return await self._actor.do.remote(name, verb, about)
        except RayError as error:
            raise OSError(f"the actor that keeps it is gone: {str(error).strip().splitlines()[0]}") from None

    def send(self, name: str, verb: str, *about: Any) -> None:
        """Tell the actor."""
        self._actor.do.remote(name, verb, about)
