"""The host's ends of a kernel's Jupyter channels. Whatever arrives on them is hostile until it is checked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .errors import KernelStartError, ProtocolViolation
from .wire import Message, Wire, WireError
from .zmtp import Connection

ChannelName = Literal["shell", "control", "iopub"]


class Channels:
    """Shell, control and iopub of one kernel."""

    def __init__(
        self, endpoints: Mapping[str, str], key: bytes, *, max_message_bytes: int, seconds: float = 30.0
    ) -> None:
        self._wire = Wire(key)
        self._connections: dict[str, Connection] = {}
        try:
            for name in ("shell", "control", "iopub"):
                self._connections[name] = Connection(
                    endpoints[name],
                    "SUB" if name == "iopub" else "DEALER",
                    max_message_bytes=max_message_bytes,
                    seconds=seconds,
                )
        except (OSError, ProtocolViolation) as error:
            self.close()
            raise KernelStartError(f"the kernel's channels cannot be reached: {error}") from error

    def __getitem__(self, name: ChannelName) -> Connection:
        return self._connections[name]

    def send(self, name: ChannelName, kind: str, content: dict[str, Any], buffers: Sequence[bytes] = ()) -> str:
        """Send a message; its id, which answers refer to."""
        message_id, frames = self._wire.pack(kind, content, buffers=buffers)
        self._connections[name].send(frames)
        return message_id

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
