"""Host calls over a socket pair that the kernel inherited. The other transport, Jupyter comms, is in `remote.py`."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import frames
from .errors import ProtocolViolation
from .host_calls import HostCalls
from .limits import Limits

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@dataclass(slots=True)
class _Outgoing:
    data: bytearray
    descriptors: Sequence[int] = ()
    owners: Sequence[Any] = ()
    """What keeps the descriptors open until they are sent."""


class CallSocket:
    """The host's end of the socket pair: 4 bytes of length, then JSON. Only the loop that runs the cell reads."""

    def __init__(self, sock: socket.socket, calls: HostCalls, limits: Limits, wake: Callable[[], None]) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.descriptor = sock.fileno()
        self._calls = calls
        self._wake = wake
        self._reader = frames.Reader(limits.call_bytes)
        self._queue: deque[_Outgoing] = deque()
        self._queued_bytes = 0
        self._max_queued_bytes = 4 * limits.call_bytes
        self._lock = threading.Lock()
        self._broken = False
        self._has_more = False
        self.paused = False

    @property
    def wants_to_read(self) -> bool:
        """False while too many calls wait, or too many answers for the kernel to read: then the kernel has to wait."""
        is_full = self._calls.congested or self._queued_bytes > self._max_queued_bytes
        self.paused = is_full and not self._calls.stopping
        return not self.paused

    @property
    def wanted_events(self) -> int:
        """What the socket is to be watched for."""
        return (_READ if self.wants_to_read else 0) | (_WRITE if self._queue else 0)

    @property
    def behind(self) -> bool:
        """Whether calls that have arrived can be taken, though the socket may have nothing more to read."""
        return self._has_more and self.wants_to_read

    def read(self, end: float) -> bool:
        """Take calls that have arrived until this moment of `time.monotonic`; False when the kernel hung up."""
        reader = self._reader
        try:
            alive = self._has_more or frames.receive(self.socket, reader)
        except BlockingIOError:
            return not self._broken
        except OSError:
            return False
        try:
            for body in reader.bodies():
                self._calls.receive(body, self)
                if reader.empty:
                    break
                if time.monotonic() >= end or not self.wants_to_read:
                    self._has_more = reader.has_frame
                    return alive and not self._broken
        except frames.FrameError as error:
            raise ProtocolViolation(f"a malformed host call: {error}") from None
        self._has_more = False
        return alive and not self._broken

    def send_descriptors(self, descriptors: Sequence[int], owners: Sequence[Any]) -> None:
        """Queue open files for the kernel, which takes them when a message says what they are."""
        with self._lock:
            self._enqueue(frames.encode({}), descriptors, owners)

    @property
    def has_descriptors_queued(self) -> bool:
        """Whether the kernel has not been sent all descriptors."""
        return any(entry.descriptors for entry in list(self._queue))

    def write(self) -> bool:
        """Send more of what is queued; False when the kernel hung up."""
        with self._lock:
            self._push()
        return not self._broken

    def answer(self, frame: bytes) -> None:
        """Send an answer, from any thread; what the socket does not take is left to the loop."""
        with self._lock:
            if not self._queue and not self._broken:
                frame = frame[self._send(frame) :]
            if frame and not self._broken:
                self._enqueue(frame)
        if self._queue or self.paused:
            self._wake()

    def close(self) -> None:
        """Hang up. An answer that comes later goes nowhere."""
        with self._lock:
            self._broken = True
            self._queue.clear()
            self.socket.close()

    def _enqueue(self, frame: bytes, descriptors: Sequence[int] = (), owners: Sequence[Any] = ()) -> None:
        if self._broken:
            return
        if self._queue and not descriptors:
            self._queue[-1].data += frame
        else:
            self._queue.append(_Outgoing(bytearray(frame), descriptors, owners))
        self._queued_bytes += len(frame)
        self._push()

    def _push(self) -> None:
        while self._queue:
            entry = self._queue[0]
            sent = self._send(entry.data, entry.descriptors)
            if not sent:
                break
            self._queued_bytes -= sent
            del entry.data[:sent]
            entry.descriptors = entry.owners = ()
            if not entry.data:
                self._queue.popleft()
        if self._broken:
            self._queue.clear()
            self._queued_bytes = 0

    def _send(self, data: bytes | bytearray, descriptors: Sequence[int] = ()) -> int:
        """Send what the socket takes; return how much that is."""
        try:
            return socket.send_fds(self.socket, [data], list(descriptors)) if descriptors else self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._broken = True
            return 0
