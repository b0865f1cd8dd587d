"""A worker process of the local engine: `python -m rlm.batch.worker.main DESCRIPTOR`. It ends when its driver does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import Any

from ..executors.base import Setting
from ..item import Item
from . import messages, run_item
from .item_runner import Running


async def serve(sock: socket.socket) -> None:
    """Run the items that come until there is nobody who sends any."""
    reader, writer = await asyncio.open_connection(sock=sock)

    def tell() -> None:
        assert running is not None
        writer.writelines(messages.framed(b'{"outcome":%b}' % one) for one in running.take())

    running: Running | None = None
    try:
        first = await _receive(reader)
        # Imported before the driver is told that items are welcome: this takes a second or two.
        import rlm.runner  # noqa: F401

        run_item.prepare(Setting.from_dict(first["setting"]))
        running = Running(first["at_once"], tell, lambda key: writer.write(messages.pack({"waits": key})))
        writer.write(messages.pack({"ready": os.getpid()}))
        while True:
            running.start(Item.from_dict((await _receive(reader))["item"]))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the driver has closed the connection, or is gone
    finally:
        if running is not None:
            await running.stop()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    length = int.from_bytes(await reader.readexactly(messages.HEADER), "big")
    return messages.unpack(await reader.readexactly(length))


def main() -> None:
    """The process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to answer
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.setblocking(False)
    asyncio.run(serve(sock))


if __name__ == "__main__":
    main()
