"""Messages between a driver and its workers: JSON; over a socket, each with its length before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

HEADER_BYTES = 8


def encode(message: Any) -> bytes:
    """Return a message as JSON."""
    # ASCII: the text of a model may contain a lone surrogate, which UTF-8 cannot encode.
    return json.dumps(message, separators=(",", ":")).encode("ascii")


def frame(body: bytes) -> bytes:
    """Return JSON with its length before it."""
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def pack(message: dict[str, Any]) -> bytes:
    """Return a message as JSON with its length before it."""
    return frame(encode(message))


def unpack(body: bytes) -> dict[str, Any]:
    """Return the message in JSON."""
    message = json.loads(body)
    assert isinstance(message, dict)
    return message


class FrameReader:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, received: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete."""
        self._bytes += received
        while len(self._bytes) >= HEADER_BYTES:
            end = HEADER_BYTES + int.from_bytes(self._bytes[:HEADER_BYTES], "big")
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEADER_BYTES:end])
            del self._bytes[:end]
            yield unpack(body)
