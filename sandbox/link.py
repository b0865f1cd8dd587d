"""What connects a session to its kernel: the process, its channels, its host calls, and one place to wait on all."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from .call_socket import CallSocket
from .channels import Channels
from .host_calls import HostCalls
from .launch import Exit
from .limits import Limits
from .results import CellResult
from .variables import KnownVariables
from .wire import Message

_SPIN_SECONDS = 0.0004 if (os.cpu_count() or 1) > 1 else 0.0


class Kernel(Protocol):
    """The process behind the channels, wherever it runs."""

    pid: int | None
    pidfd: int | None
    errors: int
    scratch: str | None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""

    def stop_cell(self) -> None:
        """Make the running cell stop; its variables stay."""

    def hold(self, size: int) -> None:
        """Make room for inputs of that many bytes, before they are sent."""

    def kill(self) -> None:
        """End it now."""

    def wait(self, seconds: float) -> Exit | None:
        """How it ended, if it did."""

    def close(self) -> None:
        """End it and let go of what belongs to it."""


class CommHostCalls(Protocol):
    """Host calls that arrive as Jupyter messages."""

    def take(self, message: Message) -> bool:
        """Whether the message is a host call; if it is, it is under way."""

    def flush(self) -> None:
        """Send the answers that are ready."""


@dataclass(slots=True)
class Link:
    """Everything that the loop of a cell needs."""

    kernel: Kernel
    channels: Channels
    calls: HostCalls
    limits: Limits
    carrier: CallSocket | None = None
    comm: CommHostCalls | None = None
    """The second carrier, where there is no socket pair."""

    review: Callable[[str], CellResult | None] | None = None
    """The policy, where the kernel has none of its own."""

    known: KnownVariables = field(default_factory=KnownVariables)
    cancelled: bool = False
    wake: tuple[int, int] = field(default_factory=os.pipe)
    _selector: selectors.BaseSelector | None = None
    _carrier_events: int = selectors.EVENT_READ

    def __post_init__(self) -> None:
        os.set_blocking(self.wake[0], False)
        os.set_blocking(self.wake[1], False)

    def poke(self) -> None:
        """Make the loop look around, from any thread."""
        try:
            os.write(self.wake[1], b"!")
        except (BlockingIOError, OSError):
            pass  # it is awake already, or gone

    def calm(self) -> None:
        """Take back what `poke` wrote."""
        try:
            os.read(self.wake[0], 4096)
        except BlockingIOError:
            pass

    def fileno(self) -> int:
        """Readable when something has happened: for an event loop, which then calls `look`."""
        return (self._selector or self._register()).fileno()  # type: ignore[attr-defined,no-any-return]

    def wait(self, seconds: float) -> dict[int, int]:
        """Wait until something has happened; the events by descriptor."""
        # After a quick call the next one is often there before a processor that went to sleep would be awake again.
        while time.monotonic() < self.calls.quick_at + _SPIN_SECONDS:
            if happened := self.look():
                return happened
            os.sched_yield()  # the kernel may be waiting for this very processor
        return self.look(seconds)

    def look(self, seconds: float = 0.0) -> dict[int, int]:
        """What has happened, or happens within that time."""
        selector = self._selector or self._register()
        if self.carrier is not None:
            events = (selectors.EVENT_READ if self.carrier.wants_to_read else 0) | (
                selectors.EVENT_WRITE if self.carrier.wants_to_write else 0
            )
            if events != self._carrier_events:
                self._watch_carrier(selector, self.carrier, events)
        return {key.fd: happened for key, happened in selector.select(seconds)}

    def close(self) -> None:
        """End the kernel and hang up."""
        if self._selector is not None:
            self._selector.close()
        self.kernel.close()
        self.channels.close()
        if self.carrier is not None:
            self.carrier.socket.close()
        for descriptor in self.wake:
            os.close(descriptor)

    def _watch_carrier(self, selector: selectors.BaseSelector, carrier: CallSocket, events: int) -> None:
        if not events:
            selector.unregister(carrier.socket)
        elif not self._carrier_events:
            selector.register(carrier.socket, events)
        else:
            selector.modify(carrier.socket, events)
        self._carrier_events = events

    def _register(self) -> selectors.BaseSelector:
        self._selector = selectors.DefaultSelector()
        watched = [self.wake[0], self.channels["shell"].fileno(), self.channels["iopub"].fileno(), self.kernel.errors]
        if self.kernel.pidfd is not None:
            watched.append(self.kernel.pidfd)
        if self.carrier is not None:
            watched.append(self.carrier.socket.fileno())
        for descriptor in watched:
            if descriptor >= 0:
                self._selector.register(descriptor, selectors.EVENT_READ)
        return self._selector
