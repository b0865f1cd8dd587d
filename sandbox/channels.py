"""The host's ends of a kernel's Jupyter channels. Whatever arrives on them is hostile until it is checked here."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import zmq

from .errors import ProtocolViolation
from .wire import Message, Wire, WireError

ChannelName = Literal["shell", "control", "iopub"]

# A kernel that talks faster than we listen has to wait; it must not fill our memory meanwhile.
_RECEIVE_MESSAGES = 16

# Three for each session; the library's own default would be reached with 340 sessions.
_MAX_SOCKETS = 60_000

_context_lock = threading.Lock()


class Channels:
    """Shell, control and iopub of one kernel."""

    def __init__(self, endpoints: Mapping[str, str], key: bytes, *, max_message_bytes: int) -> None:
        self._wire = Wire(key)
        with _context_lock:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
            context.set(zmq.MAX_SOCKETS, max(_MAX_SOCKETS, context.get(zmq.MAX_SOCKETS)))
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        for name, kind in (("shell", zmq.DEALER), ("control", zmq.DEALER), ("iopub", zmq.SUB)):
            channel = context.socket(kind)
            channel.linger = 0
            channel.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
            channel.setsockopt(zmq.RCVHWM, _RECEIVE_MESSAGES)
            if name == "iopub":
                channel.setsockopt(zmq.SUBSCRIBE, b"")
            channel.connect(endpoints[name])
            self._sockets[name] = channel

    def __getitem__(self, name: ChannelName) -> zmq.Socket[bytes]:
        return self._sockets[name]

    def send(self, name: ChannelName, kind: str, content: dict[str, Any], buffers: Sequence[bytes] = ()) -> str:
        """Send a message; its id, which answers refer to."""
        message_id, frames = self._wire.pack(kind, content, buffers=buffers)
        self._sockets[name].send_multipart(frames)
        return message_id

    def receive(self, name: ChannelName) -> tuple[Message, int] | None:
        """The next message that has arrived and its size in bytes; None when there is none."""
        try:
            frames = self._sockets[name].recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        try:
            return self._wire.unpack(frames), sum(map(len, frames))
        except WireError as error:
            raise ProtocolViolation(f"the kernel sent a malformed message on its {name} channel: {error}") from None

    def close(self) -> None:
        """Let go of the sockets."""
        for channel in self._sockets.values():
            channel.close()
