"""The messages that a kernel sends. They are packed and sent whole, from any thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ..wire import Message, Wire
from .channels import Channel
from .interrupts import Interrupts


class Publisher:
    """Publishes on iopub and replies to requests."""

    def __init__(self, wire: Wire, iopub: Channel, interrupts: Interrupts) -> None:
        self._wire = wire
        self._iopub = iopub
        self._interrupts = interrupts
        self._pid = os.getpid()
        self._one_at_a_time = threading.RLock()
        self.request: Message | None = None
        """The last request: what is printed belongs to it."""

    def publish(
        self,
        kind: str,
        content: dict[str, Any],
        parent: Message | None,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[bytes] = (),
    ) -> None:
        """Say something to everybody."""
        above = parent.header if parent else {}
        _, frames = self._wire.pack(kind, content, parent=above, metadata=metadata, buffers=buffers)
        self._send(self._iopub, [kind.encode(), *frames])

    def status(self, state: str, parent: Message) -> None:
        """Say that a request is being worked on, or is done: then all that belongs to it has been published."""
        self.publish("status", {"execution_state": state}, parent)

    def stream(self, name: str, text: str) -> None:
        """Say what was printed."""
        self.publish("stream", {"name": name, "text": text}, self.request)

    def reply(
        self, channel: Channel, kind: str, content: dict[str, Any], to: Message, metadata: dict[str, Any] | None = None
    ) -> None:
        """Answer a request."""
        _, frames = self._wire.pack(kind, content, parent=to.header, identities=to.identities, metadata=metadata)
        self._send(channel, frames)

    def _send(self, channel: Channel, frames: list[bytes]) -> None:
        if os.getpid() != self._pid:
            return  # a child that the cell forked: the channels are not its own
        with self._interrupts.shield, self._one_at_a_time:
            channel.send_multipart(frames)
