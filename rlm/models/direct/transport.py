"""HTTP/1.1 exchanges with one endpoint, over reused connections. No proxies, redirects or compression."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .connection import Connection, Origin, connections
from .http1 import ResponseReader

CONNECT_SECONDS = 10.0
TIMEOUT_SECONDS = 600.0  # a model may take minutes before its first byte


class NoResponse(ConnectionError):
    """The server closed the connection before the first byte of a response."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of requests, and everything in them that stays the same."""

    origin: Origin
    head: bytes = field(repr=False)  # holds the key
    seconds: float = TIMEOUT_SECONDS
    """The limit for sending a request, for the first byte of the response, and from there to its end: each."""

    @classmethod
    def at(cls, url: str, headers: Iterable[tuple[str, str]], seconds: float = TIMEOUT_SECONDS) -> Endpoint:
        """Make the endpoint for a URL. Raises `ValueError` for a URL, header or timeout that is not supported."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("only http and https addresses without a user can be called directly")
        if not seconds > 0:
            raise ValueError("a timeout is more than 0 seconds")
        default_port = 443 if parts.scheme == "https" else 80
        origin = Origin(parts.scheme == "https", parts.hostname, parts.port or default_port)
        name = f"[{origin.host}]" if ":" in origin.host else origin.host.encode("idna").decode("ascii")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = ("Host", name if origin.port == default_port else f"{name}:{origin.port}")
        fields = [host, ("User-Agent", "rlm"), ("Accept-Encoding", "identity"), *headers]
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "Content-Length: "]
        if any(not line.isprintable() for line in lines):
            raise ValueError("a header has a control character in it; is there a line break at the end of the key?")
        return cls(origin, "\r\n".join(lines).encode("latin-1"), float(seconds))

    async def post(self, body: bytes) -> ResponseReader:
        """Send a request and read its response. Raises `OSError`, `TimeoutError` included, or `InvalidResponse`."""
        request = b"%b%d\r\n\r\n%b" % (self.head, len(body), body)
        while True:
            connection = connections.acquire(self.origin)
            reused = connection is not None
            if connection is None:
                connection = await Connection.open(self.origin, CONNECT_SECONDS)
            try:
                response = await _exchange(connection, request, self.seconds)
            except BaseException as error:
                connection.close()
                if reused and isinstance(error, NoResponse):
                    continue  # the server closed an idle connection at the moment when it was reused
                raise
            if response.reusable:
                connections.release(connection)
            else:
                connection.close()
            return response


async def _exchange(connection: Connection, request: bytes, seconds: float) -> ResponseReader:
    now = asyncio.get_running_loop().time
    response, late = ResponseReader(), f"the server did not take the request in {seconds:g} seconds"
    try:
        await connection.send(request, now() + seconds)
        late = f"no response in {seconds:g} seconds"
        received = await connection.receive(now() + seconds)
        late = f"the response was not complete {seconds:g} seconds after its first byte"
        deadline = now() + seconds
        while received:
            if response.feed(received):
                return response
            received = await connection.receive(deadline)
    except TimeoutError:
        raise TimeoutError(late) from None
    except (ConnectionResetError, BrokenPipeError):
        if response.begun:
            raise
    if not response.begun:
        raise NoResponse("the server closed the connection without a response")
    response.end()
    return response
