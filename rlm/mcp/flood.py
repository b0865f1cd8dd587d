"""The limit on what a server sends unasked: messages and bytes between two calls."""

from __future__ import annotations

MAX_MESSAGES = 2_000
MAX_BYTES = 32_000_000
MESSAGE_BYTES = 4_000_000
"""The least that a message may be long; more where results may be larger."""


class Flooded(Exception):
    """The server has sent more than is read."""


class FloodGuard:
    """Counts what arrives from one server. A call sets the count back."""

    def __init__(self) -> None:
        self._messages = self._bytes = 0

    def reset(self) -> None:
        """Start to count anew, for a call that is about to be made."""
        self._messages = self._bytes = 0

    def count(self, size: int, messages: int = 1) -> None:
        """Count what arrived. Raise `Flooded` beyond the limit."""
        self._messages += messages
        self._bytes += size
        if self._messages > MAX_MESSAGES or self._bytes > MAX_BYTES:
            raise Flooded(f"it sent {self._messages:,} messages, {self._bytes:,} bytes, where one answer was expected")


def message_limit(max_result_bytes: int) -> int:
    """Return how long one message of a server may be."""
    return max(MESSAGE_BYTES, 4 * max_result_bytes)
