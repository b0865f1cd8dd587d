"""Messages between a driver and its worker processes: JSON with its length before it, over a socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

HEADER = 8


def encoded(message: Any) -> bytes:
    """A message as JSON."""
    # Escaped: what a model wrote may hold a lone surrogate, which cannot be encoded.
    return json.dumps(message, separators=(",", ":")).encode("ascii")


def framed(body: bytes) -> bytes:
    """JSON with its length before it."""
    return len(body).to_bytes(HEADER, "big") + body


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    return framed(encoded(message))


def unpack(body: bytes) -> dict[str, Any]:
    """The message in a body."""
    made = json.loads(body)
    assert isinstance(made, dict)
    return made


class Incoming:
    """Bytes as they arrive, until they are messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, received: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are whole now."""
        self._bytes += received
        while len(self._bytes) >= HEADER:
            end = HEADER + int.from_bytes(self._bytes[:HEADER], "big")
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEADER:end])
            del self._bytes[:end]
            yield unpack(body)
