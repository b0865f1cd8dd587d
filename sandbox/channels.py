"""The host's ends of a kernel's Jupyter channels. Whatever arrives on them is hostile until it is checked here."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .errors import KernelStartError, ProtocolViolation
from .polling import is_ready
from .wire import Message, Wire, WireError
from .zmtp import Connection, connect

_SENT_AT_ONCE = 16_000
ChannelName = Literal["shell", "control", "iopub"]


class Channels:
    """The channels of one kernel."""

    def __init__(
        self, sockets: Mapping[str, socket.socket], key: bytes, *, max_message_bytes: int, seconds: float = 30.0
    ) -> None:
        """Over sockets that are connected to the kernel; they belong to this object from here on."""
        self._wire = Wire(key)
        self._connections: dict[str, Connection] = {}
        try:
            for name, sock in sockets.items():
                kind: Literal["SUB", "DEALER"] = "SUB" if name == "iopub" else "DEALER"
                self._connections[name] = Connection(sock, kind, max_message_bytes=max_message_bytes, seconds=seconds)
        except (OSError, ProtocolViolation) as error:
            for sock in sockets.values():
                sock.close()
            raise KernelStartError(f"the kernel's channels cannot be reached: {error}") from error

    @classmethod
    def to(cls, endpoints: Mapping[str, str], key: bytes, *, max_message_bytes: int, seconds: float = 30.0) -> Channels:
        """Connect to a kernel that listens."""
        sockets: dict[str, socket.socket] = {}
        try:
            for name, endpoint in endpoints.items():
                sockets[name] = connect(endpoint, seconds)
        except OSError as error:
            for sock in sockets.values():
                sock.close()
            raise KernelStartError(f"the kernel's channels cannot be reached: {error}") from error
        return cls(sockets, key, max_message_bytes=max_message_bytes, seconds=seconds)

    def __getitem__(self, name: ChannelName) -> Connection:
        return self._connections[name]

    def send(
        self,
        name: ChannelName,
        kind: str,
        content: dict[str, Any],
        buffers: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Send a message; its id, which answers refer to."""
        message_id, frames = self._wire.pack(kind, content, buffers=buffers, metadata=metadata)
        self._connections[name].send_multipart(frames)
        return message_id

    def takes(self, name: ChannelName, characters: int) -> bool:
        """Whether a text of that length can be sent without waiting for the kernel to read."""
        # A local socket can be written to while three quarters of its 200 kB are free; JSON may write one as six.
        return characters <= _SENT_AT_ONCE and is_ready(self._connections[name], 0.0, to_write=True)

    def receive(self, name: ChannelName) -> tuple[Message, int] | None:
        """The next message that has arrived and its size in bytes; None when there is none."""
        frames = self._connections[name].receive()
        if frames is None:
            return None
        try:
            return self._wire.unpack(frames), sum(map(len, frames))
        except WireError as error:
            raise ProtocolViolation(f"the kernel sent a malformed message on its {name} channel: {error}") from None

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections.values():
            connection.close()
