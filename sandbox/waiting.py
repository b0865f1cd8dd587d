"""Waiting on one descriptor. Not with `select`, which knows none above 1023: a host may have hundreds of sessions."""

from __future__ import annotations

import select
from typing import Protocol


class HasDescriptor(Protocol):
    """A socket, or something that has one."""

    def fileno(self) -> int:
        """The descriptor."""


def ready(one: int | HasDescriptor, seconds: float | None, *, to_write: bool = False) -> bool:
    """Whether it can be read from, or written to, within that time; None waits for as long as it takes."""
    poll = select.poll()
    poll.register(one if isinstance(one, int) else one.fileno(), select.POLLOUT if to_write else select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
