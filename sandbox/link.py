"""What connects a session to its kernel: the process, its channels, its host calls, and one place to wait on all."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
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
from .zmtp import Connection


class Kernel(Protocol):
    """The process behind the channels, wherever it runs."""

    pid: int | None
    pidfd: int | None
    errors: int
    scratch: str | None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used, children included; 0 if nobody knows."""

    def stop_cell(self) -> None:
        """Make the running cell stop; its variables stay."""

    def hold(self, size: int) -> None:
        """Make room for inputs of that many bytes, before they are sent."""

    def kill(self) -> None:
        """End it now."""

    def wait(self, seconds: float) -> Exit | None:
        """Return how it ended, if it did."""

    def close(self) -> None:
        """End it and let go of what belongs to it."""


class CommHostCalls(Protocol):
    """Host calls that arrive as Jupyter messages."""

    def take(self, message: Message) -> bool:
        """Return whether the message is a host call; if it is, it is under way."""

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
    _events: dict[int, int] = field(default_factory=dict)
    """What is watched for, by descriptor."""

    _writing: set[socket.socket] = field(default_factory=set)
    """Sockets of the channels that are watched for room to write."""

    _connections: list[Connection] = field(default_factory=list)
    _wake_lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._connections = [self.channels["iopub"], self.channels["shell"], *self.channels.others]
        os.set_blocking(self.wake[0], False)
        os.set_blocking(self.wake[1], False)

    def poke(self) -> None:
        """Make the loop look around, from any thread."""
        with self._wake_lock:  # after `close` the descriptor may be another's
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # it is awake already
                    os.write(self.wake[1], b"!")

    def calm(self) -> None:
        """Take back what `poke` wrote."""
        try:
            os.read(self.wake[0], 4096)
        except BlockingIOError:
            pass

    def fileno(self) -> int:
        """Readable when something has happened: for an event loop, which then calls `look`."""
        return (self._selector or self._register()).fileno()  # type: ignore[attr-defined,no-any-return]

    def look(self, seconds: float = 0.0) -> dict[int, int]:
        """Return what has happened, or happens within that time: the events by descriptor.

        It sleeps. Looking again and again would answer a host call a little sooner where the kernel has a processor of
        its own, and keeps the kernel from working where they share one: the system wakes whoever is written to on the
        processor of the writer.
        """
        selector = self._selector or self._register()
        if self._writing or self._connections[1].unsent or self.comm is not None:
            for connection in self._connections:
                self._watch_writing(connection)
        if self.carrier is not None:
            wanted = self.carrier.wanted_events
            if wanted != self._events[self.carrier.descriptor]:
                self._watch(self.carrier.descriptor, wanted)
        return {key.fd: happened for key, happened in selector.select(seconds)}

    def flush(self, ready: dict[int, int]) -> None:
        """Send more of what is queued, where there is room."""
        for connection in self._connections:
            if connection.unsent and ready.get(connection.fileno(), 0) & selectors.EVENT_WRITE:
                connection.flush()

    @property
    def behind(self) -> bool:
        """Whether there is something to take that was read already, or that the last turn had no time for."""
        connections, carrier = self._connections, self.carrier
        return connections[0].behind or connections[1].behind or (carrier is not None and carrier.behind)

    @property
    def has_unsent_request(self) -> bool:
        """Whether the kernel has not been sent all of what it was asked."""
        unsent = any(connection.unsent for connection in self._connections)
        return unsent or (self.carrier is not None and self.carrier.has_descriptors_queued)

    def ignore(self, descriptor: int) -> None:
        """Watch a descriptor no longer: it has come to its end, and would be readable for ever."""
        self._watch(descriptor, 0)

    def close(self) -> None:
        """End the kernel and hang up. Once: the numbers of closed descriptors soon belong to others."""
        with self._wake_lock:
            if self._closed:
                return
            self._closed = True
        if self._selector is not None:
            self._selector.close()
        self.kernel.close()
        self.channels.close()
        if self.carrier is not None:
            self.carrier.close()
        with self._wake_lock:
            for descriptor in self.wake:
                os.close(descriptor)

    def _watch_writing(self, connection: Connection) -> None:
        events = self._events.get(connection.fileno(), 0) & selectors.EVENT_READ  # nobody reads the control channel
        if connection.unsent:
            self._writing.add(connection.socket)
            events |= selectors.EVENT_WRITE
        else:
            self._writing.discard(connection.socket)
        self._watch(connection.fileno(), events)

    def _watch(self, descriptor: int, events: int) -> None:
        selector = self._selector or self._register()
        before = self._events.get(descriptor, 0)
        if events == before:
            return
        if not events:
            selector.unregister(descriptor)
        elif not before:
            selector.register(descriptor, events)
        else:
            selector.modify(descriptor, events)
        self._events[descriptor] = events

    def _register(self) -> selectors.BaseSelector:
        self._selector = selectors.DefaultSelector()
        watched = [self.wake[0], self.channels["shell"].fileno(), self.channels["iopub"].fileno(), self.kernel.errors]
        if self.kernel.pidfd is not None:
            watched.append(self.kernel.pidfd)
        if self.carrier is not None:
            watched.append(self.carrier.descriptor)
        for descriptor in watched:
            if descriptor >= 0:
                self._watch(descriptor, selectors.EVENT_READ)
        return self._selector
