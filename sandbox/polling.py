"""Polling one descriptor. `select` is not used: it refuses descriptors above 1023, and a host may have more open."""

from __future__ import annotations

import select
from typing import Protocol


class HasDescriptor(Protocol):
    """A socket, or another object with a descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""


def is_ready(source: int | HasDescriptor, seconds: float | None, *, to_write: bool = False) -> bool:
    """Return whether `source` becomes readable (or writable) within that time; None waits without a limit."""
    poll = select.poll()
    poll.register(source if isinstance(source, int) else source.fileno(), select.POLLOUT if to_write else select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
