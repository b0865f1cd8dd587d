"""What runs in the actors of a Ray cluster: a worker that runs items, and the pace that all workers keep.

Plain classes: `ray.py` makes actors of them. What goes in and comes out is JSON in bytes, as in `frames.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import frames
from .engine import Setting
from .items import Item


def packed(message: Mapping[str, Any]) -> bytes:
    """A message in bytes: Ray would refuse text that holds a lone surrogate."""
    return json.dumps(message, separators=(",", ":")).encode("ascii")


class ItemActor:
    """Runs items, many at once, in its event loop. Their sandboxes run where it runs."""

    def __init__(self, setting: bytes, board: Any) -> None:
        """`board` is the actor that keeps the pace; None: processes of one machine keep it by themselves."""
        import rlm.running  # noqa: F401

        from . import worker

        said = Setting.from_dict(frames.unpack(setting))
        if said.home is not None and not Path(said.home).is_dir():
            said = dataclasses.replace(said, home=None)  # a folder of another machine
        worker.prepare(said)
        if board is not None:
            from ..models.traffic import Traffic, use

            use(Traffic(**said.traffic or {}), board=RayBoard(board))
        self._running: set[asyncio.Task[Any]] = set()
        self._waited: dict[str, float] = {}

    async def ready(self) -> dict[str, Any]:
        """Who it is."""
        from rlm import __version__

        return {"host": socket.gethostname(), "pid": os.getpid(), "rlm": __version__, "python": sys.executable}

    async def run(self, item: bytes) -> bytes:
        """One item, to its outcome."""
        from . import worker

        given = Item.from_dict(frames.unpack(item))

        def waits() -> None:
            self._waited[given.key] = time.monotonic()

        task = asyncio.ensure_future(worker.run_item(given, waits))
        self._running.add(task)
        try:
            return packed((await task).to_dict())
        finally:
            self._running.discard(task)
            self._waited.pop(given.key, None)

    async def waited(self, key: str) -> float | None:
        """How many seconds ago an item waited for its turn to ask a model; None if it did not."""
        return time.monotonic() - self._waited[key] if key in self._waited else None

    async def stop(self) -> None:
        """Drop what runs, and write the traces down."""
        from ..home import home
        from ..traces.everyday import catch_up

        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.to_thread(catch_up, home())


class PaceActor:
    """Keeps the gauges of all models, for all workers of a batch, by its own clock."""

    def __init__(self) -> None:
        from ..models.boards import MemoryBoard

        self._board = MemoryBoard()

    async def do(self, name: str, verb: str, about: tuple[Any, ...]) -> Any:
        """See `rlm.models.boards.Board`."""
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
