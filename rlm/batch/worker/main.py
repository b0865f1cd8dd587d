"""A worker process of the local executor: `python -m rlm.batch.worker.main DESCRIPTOR`. It ends with its driver."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import Any

from ..executors.base import WorkerConfig
from ..item import Item
from . import messages, run_item
from .item_runner import ItemRunner


async def serve(sock: socket.socket) -> None:
    """Run the items that arrive until the connection is closed."""
    reader, writer = await asyncio.open_connection(sock=sock)
    runner: ItemRunner | None = None

    def send_outcomes() -> None:
        assert runner is not None
        writer.writelines(messages.frame(b'{"outcome":%b}' % outcome) for outcome in runner.take_outcomes())

    def send_rate_limited(key: str) -> None:
        writer.write(messages.pack({"rate_limited": key}))

    try:
        first = await _receive(reader)
        # Imported before the worker is ready, because it takes a second or two.
        import rlm.runner  # noqa: F401

        run_item.prepare(WorkerConfig.from_dict(first["config"]))
        runner = ItemRunner(first["at_once"], send_outcomes, send_rate_limited)
        writer.write(messages.pack({"ready": os.getpid()}))
        while True:
            runner.start(Item.from_dict((await _receive(reader))["item"]))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the driver has closed the connection, or has died
    finally:
        if runner is not None:
            await runner.stop()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def main() -> None:
    """Run a worker process until its driver closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.setblocking(False)
    asyncio.run(serve(sock))


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    length = int.from_bytes(await reader.readexactly(messages.HEADER_BYTES), "big")
    return messages.unpack(await reader.readexactly(length))


if __name__ == "__main__":
    main()
