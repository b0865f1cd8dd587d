"""A parser for HTTP/1.1 responses: strict about where a response ends, with a limit on every part. No sockets."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_FINISH_REASONS = {None: "stop", "stop": "stop", "length": "length", "content_filter": "content_filter"}
_NOT_TEXT = ("tool_calls", "refusal", "reasoning_content", "reasoning", "annotations", "audio", "function_call")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")

SAMPLE = (("user", "a"), ("assistant", "b"), ("user", "c"))
"""The conversation from which a template is made, with the system prompt "s"."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request without its messages."""

    body: dict[str, Any]
    system_role: str

    @classmethod
    def of(cls, body: bytes) -> RequestTemplate | None:
        """Make a template from the request with the sample; None if its messages are not role and text only."""
        request = json.loads(body)
        first, *turns = request["messages"]
        if turns != [{"role": role, "content": text} for role, text in SAMPLE] or first.get("content") != "s":
            return None
        return cls(request, first["role"])

    def messages(self, turns: Sequence[tuple[str, str]], system: str | None) -> list[dict[str, str]]:
        """Return a conversation in the form of the API."""
        messages = [{"role": role, "content": text} for role, text in turns]
        return [{"role": self.system_role, "content": system}, *messages] if system else messages

    def encode(self, messages: list[dict[str, str]]) -> bytes:
        """Return the body of a request with these messages."""
        return json.dumps({**self.body, "messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class TextCompletion:
    """A completion that is only text, with its usage in the form of dspy's history."""

    text: str
    finish_reason: str
    model: str
    usage: dict[str, Any]

    @classmethod
    def of(cls, data: Any) -> TextCompletion | None:
        """Read the JSON of a completion; None if there is more in it than text, or anything unusual."""
        try:
            (choice,) = data["choices"]
            message, usage = choice["message"], data["usage"]
            text, model, finish_reason = message["content"], data["model"], _FINISH_REASONS[choice["finish_reason"]]
            counts = [usage[name] for name in _COUNTS]
            more = [data.get("error"), choice.get("logprobs"), *map(message.get, _NOT_TEXT)]
            more += [usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")]
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        if any(more) or not isinstance(text, str) or not isinstance(model, str) or not model:
            return None
        if not all(type(count) is int and count >= 0 for count in counts):
            return None
        details = {"prompt_tokens_details": None, "completion_tokens_details": None}
        return cls(text, finish_reason, model, dict(zip(_COUNTS, counts, strict=True)) | details)


MAX_HEAD = 64 * 1024
"""Bytes of a response that are not its body: head, interim responses, extensions of chunks and trailers together."""

MAX_BODY = 64 * 1024 * 1024

_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: (.*))?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?")
_NO_BODY = (204, 304)


class InvalidResponse(Exception):
    """The server sent bytes that are not a response, or not one that can be read safely."""


class ResponseReader:
    """The parser of one response. It is complete when `feed` returns True or `end` returns."""

    def __init__(self) -> None:
        self.status = 0
        self.reason = ""
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.reusable = False
        """Whether the connection can carry another request."""

        self._buffer = bytearray()
        self._parts = bytearray()
        self._missing = 0
        self._head_size = 0
        self._version = 0
        self._step: Callable[[], bool] | None = self._head

    @property
    def begun(self) -> bool:
        """Whether any byte of the response has arrived."""
        return self._step != self._head or bool(self._buffer)

    def header(self, name: str) -> str:
        """Return the first header of this name, which is in lower case; an empty text if there is none."""
        return next((value for field, value in self.headers if field.lower() == name), "")

    def feed(self, data: bytes) -> bool:
        """Parse more bytes. Returns whether the response is complete. Raises `InvalidResponse`."""
        self._buffer += data
        while self._step is not None and self._step():
            pass
        if self._step is not None:
            return False
        if self._buffer:  # bytes that belong to no request
            self.reusable = False
        return True

    def end(self) -> None:
        """Handle the end of the connection. Raises `ConnectionError` if the response is not complete."""
        if self._step != self._until_end:
            raise ConnectionError("the server closed the connection before its response was complete")
        self._finish(bytes(self._parts))
        self.reusable = False

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            self._check_head(len(self._buffer))
            return False
        self._count_head(end + 4)
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        status = _STATUS.fullmatch(first)
        if status is None:
            raise InvalidResponse(f"this is not HTTP/1.1: {first[:60]!r}")
        self._version, self.status = int(status[1]), int(status[2])
        self.reason = (status[3] or b"").decode("latin-1")
        self.headers = [_field(line) for line in lines]
        if 100 <= self.status < 200:
            if self.status == 101:
                raise InvalidResponse("the server changed the protocol")
            return True  # an interim response: the final one follows
        self._frame()
        return True

    def _frame(self) -> None:
        """Find the length of the body in the headers."""
        fields: dict[str, str] = {}
        for name, value in self.headers:
            name = name.lower()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        self.reusable = self._version == 1 and "close" not in fields.get("connection", "").lower()
        encoding = fields.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise InvalidResponse(f"the response is compressed ({encoding[:40]!r}), which was not asked for")
        coding, length = fields.get("transfer-encoding"), fields.get("content-length")
        if self.status in _NO_BODY:
            self._finish(b"")
        elif coding is not None:
            if coding.strip().lower() != "chunked" or length is not None:
                raise InvalidResponse(f"the length of the response is unclear: Transfer-Encoding {coding[:40]!r}")
            self._step = self._chunk_size
        elif length is not None:
            sizes = {size.strip() for size in length.split(",")}
            if len(sizes) != 1 or not re.fullmatch(r"[0-9]{1,15}", size := sizes.pop()):
                raise InvalidResponse(f"the length of the response is unclear: Content-Length {length[:40]!r}")
            self._missing = int(size)
            self._check_body(self._missing)
            self._step = self._sized
        else:
            self._step = self._until_end

    def _sized(self) -> bool:
        if len(self._buffer) < self._missing:
            return False
        body = bytes(self._buffer[: self._missing])
        del self._buffer[: self._missing]
        self._finish(body)
        return True

    def _until_end(self) -> bool:
        self._check_body(len(self._parts) + len(self._buffer))
        self._parts += self._buffer
        self._buffer.clear()
        return False

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise InvalidResponse(f"a chunk of the response has no size: {line[:40]!r}")
        self._count_head(len(line) - size.end(1))
        self._missing = int(size[1], 16)
        self._check_body(len(self._parts) + self._missing)
        self._step = self._chunk if self._missing else self._trailer
        return True

    def _chunk(self) -> bool:
        if len(self._buffer) < self._missing + 2:
            return False
        self._parts += self._buffer[: self._missing]
        if self._buffer[self._missing : self._missing + 2] != b"\r\n":
            raise InvalidResponse("a chunk of the response is longer than its size")
        del self._buffer[: self._missing + 2]
        self._step = self._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._count_head(len(line) + 2)
        if line == b"":
            self._finish(bytes(self._parts))
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            self._check_head(len(self._buffer))
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _count_head(self, size: int) -> None:
        self._check_head(size)
        self._head_size += size

    def _check_head(self, size: int) -> None:
        if self._head_size + size > MAX_HEAD:
            raise InvalidResponse(f"the headers of the response are longer than {MAX_HEAD:,} bytes")

    def _check_body(self, size: int) -> None:
        if size > MAX_BODY:
            raise InvalidResponse(f"the body of the response is larger than {MAX_BODY:,} bytes")

    def _finish(self, body: bytes) -> None:
        self.body, self._step = body, None


@functools.lru_cache(256)  # most headers are the same in every response of a server
def _field(line: bytes) -> tuple[str, str]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise InvalidResponse(f"an invalid header: {line[:60]!r}")
    return found[1].decode("ascii"), found[2].rstrip(b" \t").decode("latin-1")
