"""A worker process of the local engine: `python -m rlm.batch.serving DESCRIPTOR`. It ends when its driver does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import Any

from . import frames
from .engine import Setting
from .items import Item
from .outcome import Outcome


async def serve(sock: socket.socket) -> None:
    """Run the items that come, all of them at once, until there is nobody who sends any."""
    reader, writer = await asyncio.open_connection(sock=sock)
    running: set[asyncio.Task[None]] = set()
    try:
        setting = Setting.from_dict((await _receive(reader))["setting"])
        # Imported before the driver is told that items are welcome: this takes a second or two.
        import rlm.running  # noqa: F401

        from . import worker

        worker.prepare(setting)
        writer.write(frames.pack({"ready": os.getpid()}))

        async def run(item: Item) -> None:
            outcome = await worker.run_item(item, lambda: writer.write(frames.pack({"waits": item.key})))
            try:
                message = frames.pack({"outcome": outcome.to_dict()})
            except (TypeError, ValueError, RecursionError) as error:
                broken = Outcome(item.key, item.name, "Failed", error=f"its result is not JSON ({error})")
                message = frames.pack({"outcome": broken.to_dict()})
            writer.write(message)
            await writer.drain()

        while True:
            item = Item.from_dict((await _receive(reader))["item"])
            task = asyncio.create_task(run(item))
            running.add(task)
            task.add_done_callback(running.discard)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the driver has closed the connection, or is gone
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    length = int.from_bytes(await reader.readexactly(frames.HEADER), "big")
    return frames.unpack(await reader.readexactly(length))


def main() -> None:
    """The process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to answer
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.setblocking(False)
    asyncio.run(serve(sock))


if __name__ == "__main__":
    main()
