"""One HTTP/1.1 exchange with a server, over a connection that is kept for the next one.

Built to cost little, for thousands of calls to a near server. No proxies, no redirects, no compression: what needs them
goes dspy's way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .connection import Connection, Origin
from .connection_pool import connections
from .http1 import ReplyReader

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0  # a model may think for minutes before its first byte


class Unanswered(ConnectionError):
    """The server closed the connection without a word."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and everything about them that stays the same."""

    origin: Origin
    head: bytes = field(repr=False)  # holds the key
    seconds: float = READ_SECONDS
    """How long the request may take to be sent, the answer to begin, and the answer to be complete from there."""

    @classmethod
    def at(cls, url: str, headers: Iterable[tuple[str, str]], seconds: float = READ_SECONDS) -> Endpoint:
        """The endpoint at a URL. Raises `ValueError` for one that cannot be asked directly."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("only plain http and https addresses can be asked directly")
        if not seconds > 0:
            raise ValueError("a timeout is more than 0 seconds")
        usual = 443 if parts.scheme == "https" else 80
        origin = Origin(parts.scheme == "https", parts.hostname, parts.port or usual)
        name = f"[{origin.host}]" if ":" in origin.host else origin.host.encode("idna").decode("ascii")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = ("Host", name if origin.port == usual else f"{name}:{origin.port}")
        fields = [host, ("User-Agent", "rlm"), ("Accept-Encoding", "identity"), *headers]
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "Content-Length: "]
        if any(not line.isprintable() for line in lines):
            raise ValueError("a header holds a line break or something like it; is there one at the end of the key?")
        return cls(origin, "\r\n".join(lines).encode("latin-1"), float(seconds))

    async def post(self, body: bytes) -> ReplyReader:
        """Send a body, and wait for the whole answer. Raises `OSError` (`TimeoutError` among them) or `BadReply`."""
        data = b"%b%d\r\n\r\n%b" % (self.head, len(body), body)
        while True:
            connection = connections.take(self.origin)
            reused = connection is not None
            if connection is None:
                connection = await Connection.open(self.origin, CONNECT_SECONDS)
            try:
                reply = await _answered(connection, data, self.seconds)
            except BaseException as error:
                connection.close()
                if reused and isinstance(error, Unanswered):
                    continue  # it closed an idle connection just when it was used again
                raise
            if reply.reusable:
                connections.give(connection)
            else:
                connection.close()
            return reply


async def _answered(connection: Connection, data: bytes, seconds: float) -> ReplyReader:
    now = asyncio.get_running_loop().time
    reply, late = ReplyReader(), f"the server did not take the request in {seconds:g} seconds"
    try:
        await connection.send(data, now() + seconds)
        late = f"no answer in {seconds:g} seconds"
        received = await connection.receive(now() + seconds)
        late = f"the answer was not complete {seconds:g} seconds after it began"
        deadline = now() + seconds
        while received:
            if reply.feed(received):
                return reply
            received = await connection.receive(deadline)
    except TimeoutError:
        raise TimeoutError(late) from None
    except (ConnectionResetError, BrokenPipeError):
        if reply.begun:
            raise
    if not reply.begun:
        raise Unanswered("the server closed the connection without an answer")
    reply.end()
    return reply
