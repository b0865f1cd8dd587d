"""One worker process as the local engine sees it: what it has, what it sent, and whether it lives."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..item import Item
from ..worker import messages
from .base import Setting
from .leases import Held

_CHUNK = 1 << 18


class WorkerProcess:
    """A process that runs items, several at once. Nothing here waits for it, but for `close`."""

    def __init__(self, setting: Setting, at_once: int, log: Path | None) -> None:
        self.items = Held(at_once)
        self.ready = False
        self._incoming = messages.Incoming()
        self._outgoing = bytearray(messages.pack({"setting": setting.to_dict(), "at_once": at_once}))
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs, open(log or os.devnull, "ab") as noise:
            self.process = subprocess.Popen(
                # -P: a file beside which the command was typed is no module of ours.
                [sys.executable, "-P", "-m", "rlm.batch.worker.main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=noise,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches the driver alone, and it decides
            )

    @property
    def name(self) -> str:
        """This worker, for people."""
        return f"{socket.gethostname()}:{self.process.pid}"

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._outgoing)

    def give(self, item: Item) -> None:
        """Send it an item."""
        self.items.give(item)
        self._outgoing += messages.pack({"item": item.to_dict()})
        self.write()

    def write(self) -> None:
        """Send what waits, as far as it goes now. That the worker is gone is found out by reading."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._outgoing:
                del self._outgoing[: self.socket.send(self._outgoing[:_CHUNK])]

    def read(self) -> Iterator[dict[str, Any]]:
        """The messages that have come. Raises `ConnectionError` when there will be no more."""
        while True:
            try:
                received = self.socket.recv(_CHUNK)
            except BlockingIOError:
                return
            if not received:
                raise ConnectionResetError("the worker is gone")
            yield from self._incoming.feed(received)
            if len(received) < _CHUNK:
                return  # that was all

    def kill(self, *, stuck: bool) -> str:
        """End it at once, if it has not ended; how it ended, in words."""
        if not stuck:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)  # its connection is closed a moment before it has ended
        alive = self.process.poll() is None
        if alive:
            self.process.kill()
        status = self.process.wait()
        self.socket.close()
        if alive:
            return "it was stuck and was ended"
        if status >= 0:
            return f"it exited with status {status}"
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"

    def hang_up(self) -> None:
        """Ask it to end: it drops what it is doing, writes its traces down and goes."""
        self.socket.close()

    def close(self, seconds: float) -> None:
        """Wait until it has ended, and make it end if it takes too long."""
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
