"""HTTP/1.1 answers as a client reads them: strict about where one ends, with a limit on everything. No sockets."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

MAX_HEAD = 64 * 1024
"""Bytes of one answer that are not its body: heads, also of interim answers, extensions of chunks and trailers."""

MAX_BODY = 64 * 1024 * 1024

_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: (.*))?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?")
_NO_BODY = (204, 304)


class BadReply(Exception):
    """What came is not an answer that can be read safely."""


class ReplyReader:
    """Takes the bytes of one answer as they come. After `feed` said True, or `end` returned, all of it is here."""

    def __init__(self) -> None:
        self.status = 0
        self.reason = ""
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.reusable = False
        """Whether the connection can carry another request."""

        self._buffer = bytearray()
        self._parts = bytearray()
        self._left = 0
        self._around = 0
        self._version = 0
        self._step: Callable[[], bool] | None = self._head

    @property
    def begun(self) -> bool:
        """Whether any byte has come."""
        return self._step != self._head or bool(self._buffer)

    def header(self, name: str) -> str:
        """The first header of that name, in lower case; an empty text if there is none."""
        return next((value for field, value in self.headers if field.lower() == name), "")

    def feed(self, data: bytes) -> bool:
        """Take some bytes; True when the answer is complete. Raises `BadReply`."""
        self._buffer += data
        while self._step is not None and self._step():
            pass
        if self._step is not None:
            return False
        if self._buffer:  # bytes that belong to no answer: whose they are cannot be known
            self.reusable = False
        return True

    def end(self) -> None:
        """The server closed the connection. Raises `ConnectionError` if it owed something."""
        if self._step != self._rest:
            raise ConnectionError("the server closed the connection before its answer was complete")
        self._finish(bytes(self._parts))
        self.reusable = False

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            self._limit(len(self._buffer))
            return False
        self._count_around(end + 4)
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        status = _STATUS.fullmatch(first)
        if status is None:
            raise BadReply(f"this is not HTTP/1.1: {first[:60]!r}")
        self._version, self.status = int(status[1]), int(status[2])
        self.reason = (status[3] or b"").decode("latin-1")
        self.headers = [_field(line) for line in lines]
        if 100 <= self.status < 200:
            if self.status == 101:
                raise BadReply("the server changed the protocol")
            return True  # an interim answer: the real one follows
        self._frame()
        return True

    def _frame(self) -> None:
        """How long the body is, from the headers."""
        fields: dict[str, str] = {}
        for name, value in self.headers:
            name = name.lower()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        self.reusable = self._version == 1 and "close" not in fields.get("connection", "").lower()
        encoding = fields.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise BadReply(f"the answer is encoded as {encoding[:40]!r}, which was not asked for")
        coding, length = fields.get("transfer-encoding"), fields.get("content-length")
        if self.status in _NO_BODY:
            self._finish(b"")
        elif coding is not None:
            if coding.strip().lower() != "chunked" or length is not None:
                raise BadReply(f"the length of the answer is unclear: Transfer-Encoding {coding[:40]!r}")
            self._step = self._chunk_size
        elif length is not None:
            sizes = {one.strip() for one in length.split(",")}
            if len(sizes) != 1 or not re.fullmatch(r"[0-9]{1,15}", size := sizes.pop()):
                raise BadReply(f"the length of the answer is unclear: Content-Length {length[:40]!r}")
            self._left = int(size)
            self._count(self._left)
            self._step = self._counted
        else:
            self._step = self._rest

    def _counted(self) -> bool:
        if len(self._buffer) < self._left:
            return False
        body = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._finish(body)
        return True

    def _rest(self) -> bool:
        self._count(len(self._parts) + len(self._buffer))
        self._parts += self._buffer
        self._buffer.clear()
        return False

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise BadReply(f"a chunk of the answer has no size: {line[:40]!r}")
        self._count_around(len(line) - size.end(1))
        self._left = int(size[1], 16)
        self._count(len(self._parts) + self._left)
        self._step = self._chunk if self._left else self._trailer
        return True

    def _chunk(self) -> bool:
        if len(self._buffer) < self._left + 2:
            return False
        self._parts += self._buffer[: self._left]
        if self._buffer[self._left : self._left + 2] != b"\r\n":
            raise BadReply("a chunk of the answer is longer than it said")
        del self._buffer[: self._left + 2]
        self._step = self._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._count_around(len(line) + 2)
        if line == b"":
            self._finish(bytes(self._parts))
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            self._limit(len(self._buffer))
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _count_around(self, size: int) -> None:
        self._limit(size)
        self._around += size

    def _limit(self, size: int) -> None:
        if self._around + size > MAX_HEAD:
            raise BadReply(f"what surrounds the body of the answer is longer than {MAX_HEAD:,} bytes")

    def _count(self, size: int) -> None:
        if size > MAX_BODY:
            raise BadReply(f"the answer is larger than {MAX_BODY:,} bytes")

    def _finish(self, body: bytes) -> None:
        self.body, self._step = body, None


@functools.lru_cache(256)  # a server says most of them again with every answer
def _field(line: bytes) -> tuple[str, str]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise BadReply(f"a header that cannot be read: {line[:60]!r}")
    return found[1].decode("ascii"), found[2].rstrip(b" \t").decode("latin-1")
