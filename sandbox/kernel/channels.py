"""The kernel's ends of the Jupyter channels, and waiting on all of them.

A session's kernel has one client, the host, at the other end of sockets that it inherited: the kernel speaks ZMTP on
them itself, in its one thread. A notebook's kernel has clients that come and go: libzmq serves them on listening
sockets that the host bound. Nothing is bound or connected in here.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import zmq

from ..zmtp import Connection

_MOST_BYTES = 1 << 40  # what the host sends is the host's affair


class Channel(Protocol):
    """One channel, of either kind."""

    def receive(self) -> list[bytes] | None:
        """Return the next message, if there is one."""

    def send_multipart(self, parts: Sequence[bytes], /) -> Any:
        """Send a message, however long it takes."""


class Channels:
    """What a kernel listens to and speaks on."""

    def __init__(self, sockets: Mapping[str, int], *, listening: bool) -> None:
        """`sockets` are descriptors by channel: `shell` and `iopub`, for notebooks also `control`, `stdin`, `hb`."""
        self._watched: dict[int, Callable[[], None]] = {}
        self._poller: zmq.Poller | select.poll = zmq.Poller() if listening else select.poll()
        self.control: Channel | None = None
        self.stdin: Channel | None = None
        self.shell: Channel
        self.iopub: Channel
        if listening:
            self._bind(sockets)
        else:
            self.shell = self._inherit(sockets["shell"], "ROUTER")
            self.iopub = self._inherit(sockets["iopub"], "XPUB")
        self._incoming = [channel for channel in (self.control, self.shell, self.iopub) if channel is not None]

    def watch(self, descriptor: int, act: Callable[[], None]) -> None:
        """Call `act` when there is something to read, while nothing else is done."""
        self._watched[descriptor] = act
        self._poller.register(descriptor, select.POLLIN)

    def receive(self) -> tuple[Channel, list[bytes]]:
        """Wait for the next message, on any channel."""
        while True:
            for channel in self._incoming:
                if (parts := channel.receive()) is not None:
                    return channel, parts
            for ready, _ in self._poller.poll():
                if act := self._watched.get(ready):
                    act()

    def _inherit(self, descriptor: int, kind: Any) -> Channel:
        channel = Connection(socket.socket(fileno=descriptor), kind, max_message_bytes=_MOST_BYTES, seconds=None)
        self._poller.register(channel, select.POLLIN)
        return channel

    def _bind(self, sockets: Mapping[str, int]) -> None:
        context = zmq.Context()
        context.linger = 500
        self.shell = self._bound(context, zmq.ROUTER, sockets["shell"])
        self.control = self._bound(context, zmq.ROUTER, sockets["control"])
        self.iopub = self._bound(context, zmq.XPUB, sockets["iopub"])
        if "stdin" in sockets:
            self.stdin = _bound(context, zmq.ROUTER, sockets["stdin"])
        if "hb" in sockets:
            heartbeat = _bound(context, zmq.REP, sockets["hb"])
            threading.Thread(target=_beat, args=(heartbeat,), daemon=True, name="heartbeat").start()

    def _bound(self, context: Any, kind: int, descriptor: int) -> Channel:
        channel = _bound(context, kind, descriptor)
        self._poller.register(channel, zmq.POLLIN)
        return channel


class _Bound(zmq.Socket[bytes]):
    """A channel by libzmq."""

    def receive(self) -> list[bytes] | None:
        """Return the next message, if there is one."""
        try:
            return self.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None


def _bound(context: zmq.Context[Any], kind: int, descriptor: int) -> _Bound:
    """On a listening socket that the host bound."""
    channel: _Bound = context.socket(kind, socket_class=_Bound)
    channel.setsockopt(zmq.USE_FD, descriptor)
    with socket.socket(fileno=os.dup(descriptor)) as inherited:
        local = inherited.family == socket.AF_UNIX
    channel.bind(f"ipc://@inherited-{descriptor}" if local else f"tcp://127.0.0.1:{descriptor}")
    return channel


def _beat(heartbeat: zmq.Socket[bytes]) -> None:
    while True:
        heartbeat.send(heartbeat.recv())
