"""Frames: JSON with a length in front, over a local stream socket, with descriptors beside it where needed.

Carries host calls (kernel and host), and the host's orders to the zygote. The one who reads names the largest frame it
accepts, and refuses a larger one before it reads it.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_HEAD = struct.Struct("!I")
# A small buffer comes from the heap; a large one would be mapped and unmapped for every read.
_SMALL, _LARGE = 1 << 14, 1 << 20
_SPACE = socket.CMSG_SPACE(64 * array.array("i").itemsize)
"""For the descriptors that come beside a frame."""

_decode = json.JSONDecoder().raw_decode


class FrameError(Exception):
    """A frame is too large or is not a JSON object."""


def json_encoder(default: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
    """Return a function that writes compact JSON. Code that replaces `json.dumps` later does not change what it does.

    `json.JSONEncoder.encode` prepares anew for every value, which takes longer than to write a small one.
    """
    whole = json.JSONEncoder(separators=(",", ":"), default=default)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return whole.encode
    write = make(None, whole.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True)

    def encode_json(value: Any) -> str:
        try:
            return "".join(write(value, 0))
        except RecursionError:
            return whole.encode(value)  # its error says whether the value contains itself

    return encode_json


_encode = json_encoder()


def encode(body: dict[str, Any], encoder: Callable[[Any], str] = _encode) -> bytes:
    """Return one frame."""
    data = encoder(body).encode()
    return _HEAD.pack(len(data)) + data


def decode(body: bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> dict[str, Any]:
    """Return the content of a frame. Raises `FrameError` on anything malformed, and nothing else."""
    try:
        text = str(body, "utf-8")
        value, end = (_decode if object_hook is None else json.JSONDecoder(object_hook=object_hook).raw_decode)(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from None
    if end != len(text):
        raise FrameError("not JSON: something follows the object")
    if not isinstance(value, dict):
        raise FrameError("not a JSON object")
    return value


def body_of(frame: bytes) -> dict[str, Any]:
    """Return the content of a frame of our own."""
    return decode(frame[_HEAD.size :])


def send(sock: socket.socket, body: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one frame on a blocking socket."""
    data = encode(body)
    if descriptors:
        sent = socket.send_fds(sock, [data], list(descriptors))
        data = data[sent:]
    if data:
        sock.sendall(data)


class Reader:
    """Takes frames apart as bytes arrive."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        self._data += data

    def room(self) -> int:
        """Return how much to read at once: little, unless the rest of a large frame is on its way."""
        if len(self._data) < _HEAD.size:
            return _SMALL
        (length,) = _HEAD.unpack_from(self._data)
        return max(_SMALL, min(_LARGE, _HEAD.size + int(length) - len(self._data)))

    @property
    def empty(self) -> bool:
        """Whether nothing is left of what has arrived."""
        return not self._data

    @property
    def has_frame(self) -> bool:
        """Whether a frame has arrived whole, or one that is too large has begun."""
        if len(self._data) < _HEAD.size:
            return False
        (length,) = _HEAD.unpack_from(self._data)
        return bool(length > self._max_bytes or len(self._data) >= _HEAD.size + length)

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield the whole frames that have arrived. Raises `FrameError` on a malformed one."""
        return map(decode, self.bodies())

    def bodies(self) -> Iterator[bytes]:
        """Yield the bodies of the whole frames that have arrived. Raises `FrameError` on one that is too large."""
        while len(self._data) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._data)
            if length > self._max_bytes:
                raise FrameError(f"a frame of {length:,} bytes; at most {self._max_bytes:,} are accepted")
            end = _HEAD.size + length
            if len(self._data) < end:
                return
            if length > _SMALL:
                with memoryview(self._data) as view:
                    body = bytes(view[_HEAD.size : end])
            else:
                body = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            yield body


def receive(sock: socket.socket, reader: Reader) -> bool:
    """Read what is there into the reader; False when the other end is closed."""
    data = sock.recv(reader.room())
    reader.feed(data)
    return bool(data)


def receive_with_descriptors(sock: socket.socket, reader: Reader, descriptors: list[int], flags: int = 0) -> bool:
    """Like `receive`; descriptors that came along are appended, not inheritable."""
    data, ancillary, _flags, _address = sock.recvmsg(reader.room(), _SPACE, flags)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
            for number in numbers:
                os.set_inheritable(number, False)
                descriptors.append(number)
    reader.feed(data)
    return bool(data)
