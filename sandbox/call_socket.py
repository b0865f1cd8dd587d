"""Host calls over a socket pair that the kernel inherited. The other transport, Jupyter comms, is in `remote.py`."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence

from . import frames
from .errors import ProtocolViolation
from .host_calls import HostCalls
from .limits import Limits


class CallSocket:
    """The host's end of the socket pair: 4 bytes of length, then JSON. Only the loop that runs the cell reads."""

    def __init__(self, sock: socket.socket, calls: HostCalls, limits: Limits, wake: Callable[[], None]) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._calls = calls
        self._wake = wake
        self._reader = frames.Reader(limits.call_bytes)
        self._out = bytearray()
        self._most_held = 4 * limits.call_bytes
        self._lock = threading.Lock()
        self.paused = False

    @property
    def wants_to_read(self) -> bool:
        """False while too much waits to be worked on or to be read by the kernel: then the kernel has to wait."""
        self.paused = self._calls.congested or len(self._out) > self._most_held
        return not self.paused

    def readable(self) -> bool:
        """Take what has arrived; False when the kernel closed its end."""
        try:
            alive = frames.receive(self.socket, self._reader)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        try:
            for body in self._reader.frames():
                self._calls.request(body, self._reader.size, self)
        except frames.FrameError as error:
            raise ProtocolViolation(f"a malformed host call: {error}") from None
        return alive

    def send_descriptors(self, descriptors: Sequence[int]) -> None:
        """Pass open files to the kernel, which takes them when it is told what they are."""
        with self._lock:
            self._push()
            frames.send(self.socket, {}, descriptors)

    @property
    def wants_to_write(self) -> bool:
        """Whether an answer did not fit into the socket yet."""
        return bool(self._out)

    def writable(self) -> None:
        """Send more of what is held."""
        with self._lock:
            self._push()

    def answer(self, frame: bytes) -> None:
        """Send an answer, from any thread; what the socket does not take is left to the loop."""
        with self._lock:
            self._out += frame
            self._push()
            held = bool(self._out)
        if held or self.paused:
            self._wake()

    def _push(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while self._out:
                sent = self.socket.send(self._out)
                del self._out[:sent]
