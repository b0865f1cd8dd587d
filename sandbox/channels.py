"""The host's ends of a kernel's Jupyter channels. Whatever arrives on them is hostile until it is checked here."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from .errors import KernelStartError, ProtocolViolation
from .wire import Message, Wire, WireError
from .zmtp import Connection, connect

ChannelName = Literal["shell", "control", "iopub"]


class Channels:
    """The channels of one kernel."""

    def __init__(
        self,
        sockets: Mapping[str, socket.socket],
        key: bytes,
        *,
        max_message_bytes: int,
        max_decoded_bytes: int,
        seconds: float = 30.0,
    ) -> None:
        """Over sockets that are connected to the kernel; they belong to this object from here on."""
        self._wire = Wire(key, max_decoded_bytes=max_decoded_bytes)
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
    def to(cls, endpoints: Mapping[str, str], key: bytes, *, seconds: float = 30.0, **limits: int) -> Channels:
        """Connect to a kernel that listens. `limits` are those of the constructor."""
        sockets: dict[str, socket.socket] = {}
        try:
            for name, endpoint in endpoints.items():
                sockets[name] = connect(endpoint, seconds)
        except OSError as error:
            for sock in sockets.values():
                sock.close()
            raise KernelStartError(f"the kernel's channels cannot be reached: {error}") from error
        return cls(sockets, key, seconds=seconds, **limits)

    def __getitem__(self, name: ChannelName) -> Connection:
        return self._connections[name]

    @property
    def others(self) -> list[Connection]:
        """The connections that only some kernels have: control."""
        return [connection for name, connection in self._connections.items() if name not in ("shell", "iopub")]

    def send(
        self,
        name: ChannelName,
        kind: str,
        content: dict[str, Any],
        buffers: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Queue a message and return its id, which replies refer to. What the socket does not take is sent later."""
        message_id, frames = self._wire.pack(kind, content, buffers=buffers, metadata=metadata)
        self._connections[name].queue_multipart(frames)
        return message_id

    def receive(self, name: ChannelName) -> tuple[Message, int] | None:
        """Return the next message that has arrived and its size in bytes; None when there is none."""
        frames = self._connections[name].receive()
        return None if frames is None else self._checked(name, frames)

    def messages(self, name: ChannelName, end: float) -> Iterator[tuple[Message, int]]:
        """Yield the messages that have arrived, with their sizes, until this moment of `time.monotonic`."""
        for frames in self._connections[name].messages(end):
            yield self._checked(name, frames)

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections.values():
            connection.close()

    def _checked(self, name: ChannelName, frames: list[bytes]) -> tuple[Message, int]:
        try:
            return self._wire.unpack(frames), sum(map(len, frames))
        except WireError as error:
            raise ProtocolViolation(f"the kernel sent a malformed message on its {name} channel: {error}") from None
