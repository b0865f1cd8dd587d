"""HTTP clients that could carry the direct calls to a chat server, each as quick as its settings allow.

A transport is used inside one event loop and closed there. `streams` is asyncio streams and nothing else: what the
machine allows, no client to ship.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

SECONDS = 600.0

Headers = Iterable[tuple[str, str]]


class Response(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Transport(Protocol):
    def __init__(self, url: str, headers: Headers) -> None: ...

    async def post(self, body: bytes) -> Any:
        """Send a request; returns an object with `status`, `headers` and `body`."""

    async def close(self) -> None: ...


class Streams:
    """Asyncio streams: no limits, no timeouts, no errors."""

    def __init__(self, url: str, headers: Headers) -> None:
        host, _, path = url.removeprefix("http://").partition("/")
        self.host, _, port = host.partition(":")
        self.port = int(port)
        lines = [f"POST /{path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers)]
        self.head = "\r\n".join([*lines, "Content-Length: "]).encode()
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, body: bytes) -> Response:
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection(self.host, self.port)
        writer.write(b"%b%d\r\n\r\n%b" % (self.head, len(body), body))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await reader.readexactly(length)
        self.free.append((reader, writer))
        return Response(int(head[9:12]), [], content)

    async def close(self) -> None:
        for _, writer in self.free:
            writer.close()


class Own:
    """The client in `rlm.models`."""

    def __init__(self, url: str, headers: Headers) -> None:
        from rlm.models.direct.transport import Endpoint

        self.endpoint = Endpoint.at(url, headers, SECONDS)

    async def post(self, body: bytes) -> Any:
        return await self.endpoint.post(body)

    async def close(self) -> None:
        from rlm.models.direct.connection import connections

        connections.close()


class Dspy:
    """The transport inside dspy: asyncio streams and a parser in Python."""

    def __init__(self, url: str, headers: Headers) -> None:
        from dspy._vendor.lm15.transports import StdlibAsyncTransport, TransportRequest

        self.request, self.url, self.headers = TransportRequest, url, list(headers)
        self.client = StdlibAsyncTransport(max_connections=1000, pool_timeout=None, trust_env=False)

    async def post(self, body: bytes) -> Response:
        async with self.client.stream(self.request("POST", self.url, self.headers, body)) as response:
            content = await response.read()
        return Response(response.status, response.headers, content)

    async def close(self) -> None:
        await self.client.aclose()


class Aiohttp:
    """aiohttp, whose parser and writer are compiled."""

    def __init__(self, url: str, headers: Headers) -> None:
        import aiohttp
        import yarl

        self.url = yarl.URL(url)
        self.client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=list(headers),
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
        )

    async def post(self, body: bytes) -> Response:
        async with self.client.post(self.url, data=body, allow_redirects=False) as response:
            content = await response.read()
        return Response(response.status, list(response.headers.items()), content)

    async def close(self) -> None:
        await self.client.close()


class Httpx:
    """httpx. Its pool looks at every pair of its connections for each request, which 100 at once make slow."""

    def __init__(self, url: str, headers: Headers) -> None:
        import httpx

        self.url = httpx.URL(url)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.client = httpx.AsyncClient(headers=list(headers), timeout=SECONDS, limits=limits, trust_env=False)

    async def post(self, body: bytes) -> Response:
        response = await self.client.post(self.url, content=body)
        return Response(response.status_code, response.headers.multi_items(), response.content)

    async def close(self) -> None:
        await self.client.aclose()


TRANSPORTS: dict[str, type[Transport]] = {
    "own": Own,
    "dspy": Dspy,
    "aiohttp": Aiohttp,
    "httpx": Httpx,
    "streams": Streams,
}
CLIENTS = ("own", "dspy", "aiohttp", "httpx")
"""Those that could be shipped; "own" is."""

SLOW = ("httpx",)
"""Too slow for every round."""


_opened: dict[tuple[str, asyncio.AbstractEventLoop, Any], Transport] = {}
"""Kept from one batch to the next, as our own client keeps its connections."""


@contextlib.contextmanager
def carrying(name: str) -> Iterator[None]:
    """Have the direct calls of `rlm` carried by this transport."""
    from rlm.models.direct.transport import Endpoint

    async def carried(endpoint: Endpoint, body: bytes) -> Any:
        key = name, asyncio.get_running_loop(), endpoint
        transport = _opened.get(key)
        if transport is None:
            transport = _opened[key] = TRANSPORTS[name](*_address(endpoint))
        return await transport.post(body)

    post = Endpoint.post
    if name != "own":
        Endpoint.post = carried  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Endpoint.post = post  # type: ignore[method-assign]


def _address(endpoint: Any) -> tuple[str, list[tuple[str, str]]]:
    """The URL of an endpoint, and the headers that a client does not write by itself."""
    first, *lines = endpoint.head.decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    kept = [(name, value) for name, value in headers if name not in ("Host", "Content-Length")]
    return f"http://{endpoint.origin.host}:{endpoint.origin.port}{first.split()[1]}", kept
