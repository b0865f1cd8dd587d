"""A ZeroMQ connection without libzmq: ZMTP 3.0 over a plain socket. The host's end, and the end of a session's kernel.

libzmq would do this in a thread of its own, and would keep whatever a peer sends until a message is whole: its limits
are per frame. A kernel that has run hostile code is such a peer. Here every byte is counted before it is kept, nothing
is read while nobody waits, the loop that runs a cell waits on the socket itself, and one turn of that loop reads only
for a limited time. A notebook's kernel has clients that come and go, and uses libzmq.

Covers: the NULL mechanism, one connection a socket, whole messages. Does not cover: reconnecting, encryption, queues.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from .errors import ProtocolViolation
from .polling import is_ready

_GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
_MORE, _LONG, _COMMAND = 1, 2, 4
_MAX_PARTS = 64
_MAX_COMMANDS = 10_000
"""In the life of a connection: an honest peer sends none after the handshake, or one with every heartbeat."""
_MAX_COMMAND_BYTES = 4096
_HANDSHAKE_BYTES = 4096
_READ_BYTES = 1 << 16
_LONG_SIZE = struct.Struct("!Q")


class HungUp(Exception):
    """The other end closed the connection."""


class Connection:
    """One ZeroMQ connection, to one peer."""

    def __init__(
        self,
        sock: socket.socket,
        kind: Literal["DEALER", "SUB", "ROUTER", "XPUB"],
        *,
        max_message_bytes: int,
        seconds: float | None,
    ) -> None:
        """Over a connected socket, as this kind of ZeroMQ socket. Every wait, also to send, lasts at most `seconds`."""
        self._max_message_bytes = max_message_bytes
        self._seconds = seconds
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._commands = 0
        self.unsent = bytearray()
        """What is queued and the socket has not taken yet."""

        self.behind = False
        """There may be more to take, though the socket may have nothing more to read."""
        self.socket = sock
        try:
            sock.settimeout(seconds)
            self._shake_hands(kind)
            sock.setblocking(False)
            if kind == "SUB":
                self.send_multipart([b"\x01"])  # to everything
        except BaseException:
            sock.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor, for poll and select."""
        return self.socket.fileno()

    # -- sending

    def send_multipart(self, parts: Sequence[bytes]) -> None:
        """Send one message, and wait until it is sent. Raises `ProtocolViolation` when the peer does not take it."""
        left = memoryview(_packed(parts))
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                if not is_ready(self.socket, self._seconds, to_write=True):
                    raise ProtocolViolation("the kernel does not take messages") from None
            except OSError:
                raise HungUp from None

    def queue_multipart(self, parts: Sequence[bytes]) -> None:
        """Send as much of a message as the socket takes now; `flush` sends the rest."""
        self.unsent += _packed(parts)
        self.flush()

    def flush(self) -> None:
        """Send more of what is queued."""
        try:
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            raise HungUp from None

    # -- receiving

    def receive(self) -> list[bytes] | None:
        """Return the next message if it has arrived whole: one that was read before, or after one more read.

        Raises `ProtocolViolation` when no honest peer could have sent it, `HungUp` when there will be no more.
        """
        if (message := self._next_message()) is None and self._read():
            message = self._next_message()
        self.behind = message is not None
        return message

    def messages(self, end: float) -> Iterator[list[bytes]]:
        """Read what has arrived and yield its messages, until this moment of `time.monotonic`; see `behind`."""
        self.behind = False
        size, late = _READ_BYTES, False
        while True:
            while (message := self._next_message()) is not None:
                yield message
                if time.monotonic() >= end:
                    self.behind = True
                    return
            if size < _READ_BYTES:  # nothing more has arrived
                return
            if late:
                self.behind = True
                return
            size = self._read()  # at least once, however late it is: every turn gets on
            late = time.monotonic() >= end

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def _read(self) -> int:
        """Take what has arrived, up to a limit; return how much."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            raise HungUp
        self._buffer += data
        return len(data)

    def _next_message(self) -> list[bytes] | None:
        buffer, end, parts = self._buffer, 0, self._parts
        have = len(buffer)
        if have < 2:
            return None
        try:
            with memoryview(buffer) as view:
                while have - end >= 2:
                    flags = view[end]
                    if flags > _MORE | _LONG | _COMMAND:
                        raise ProtocolViolation("not a frame of the ZeroMQ protocol")
                    start = end + (9 if flags & _LONG else 2)
                    if have < start:
                        return None
                    size = _LONG_SIZE.unpack_from(view, end + 1)[0] if flags & _LONG else view[end + 1]
                    if self._size + size > self._max_message_bytes:
                        raise ProtocolViolation(f"a message of more than {self._max_message_bytes:,} bytes")
                    if flags & _COMMAND and size > _MAX_COMMAND_BYTES:
                        raise ProtocolViolation(f"a command of more than {_MAX_COMMAND_BYTES:,} bytes")
                    if have < start + size:
                        return None
                    end = start + size
                    if flags & _COMMAND:  # a peer of this kind has no command that concerns us
                        self._commands += 1
                        if self._commands > _MAX_COMMANDS:
                            raise ProtocolViolation(f"more than {_MAX_COMMANDS:,} commands")
                        continue
                    self._size += size
                    parts.append(bytes(view[start:end]))
                    if not flags & _MORE:
                        self._parts, self._size = [], 0
                        return parts
                    if len(parts) >= _MAX_PARTS:
                        raise ProtocolViolation(f"a message of more than {_MAX_PARTS} parts")
            return None
        finally:
            del buffer[:end]

    def _shake_hands(self, kind: str) -> None:
        self.socket.sendall(_GREETING)
        theirs = self._exactly(64)
        if theirs[0] != 0xFF or theirs[9] != 0x7F or theirs[10] < 3 or theirs[12:32].rstrip(b"\0") != b"NULL":
            raise ProtocolViolation("the other end does not speak ZMTP 3 without encryption")
        ready = b"\x05READY" + _property(b"Socket-Type", kind.encode()) + _property(b"Identity", b"")
        self.socket.sendall(b"".join(_frame(ready, _COMMAND)))
        flags, size = self._exactly(2)
        if flags != _COMMAND or b"READY" not in self._exactly(size):
            raise ProtocolViolation("the other end did not accept the connection")

    def _exactly(self, count: int) -> bytes:
        """Bytes of the handshake, which are waited for."""
        while len(self._buffer) < count:
            data = self.socket.recv(_HANDSHAKE_BYTES)
            if not data:
                raise ProtocolViolation("the other end hung up")
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def connect(endpoint: str, seconds: float) -> socket.socket:
    """Return a socket that is connected to `ipc://path` or `tcp://host:port`."""
    transport, _, address = endpoint.partition("://")
    sock = socket.socket(socket.AF_UNIX) if transport == "ipc" else socket.socket()
    try:
        sock.settimeout(seconds)
        if transport == "ipc":
            sock.connect(address)
        else:
            host, _, port = address.rpartition(":")
            sock.connect((host, int(port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _packed(parts: Sequence[bytes]) -> bytes:
    last = len(parts) - 1
    return b"".join(piece for index, part in enumerate(parts) for piece in _frame(part, _MORE if index < last else 0))


def _frame(body: bytes, flags: int) -> tuple[bytes, bytes]:
    if len(body) > 255:
        return bytes([flags | _LONG]) + _LONG_SIZE.pack(len(body)), body
    return bytes([flags, len(body)]), body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack("!I", len(value)) + value
