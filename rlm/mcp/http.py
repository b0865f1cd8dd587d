"""The transport of servers over streamable HTTP, with limits on what a response may send."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from .flood import Flooded, FloodGuard, message_limit
from .settings import McpServer


@contextlib.asynccontextmanager
async def http_streams(server: McpServer, guard: FloodGuard, ending: Any) -> AsyncIterator[Any]:
    """Yield the streams of the messages of a server at a URL."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    limit = message_limit(server.max_result_bytes)
    token = server.token()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    timeout = httpx2.Timeout(server.start_timeout, read=server.timeout)
    transport = _limited(limit, guard, ending)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport) as client:
        streams = streamable_http_client(server.url or "", http_client=client, max_sse_event_size=limit)
        async with streams as (read_stream, write_stream):
            yield read_stream, write_stream


def _limited(limit: int, guard: FloodGuard, ending: Any) -> Any:
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: Any, most: int | None) -> None:
            self._stream, self._most = stream, most

        async def __aiter__(self) -> AsyncIterator[bytes]:
            seen = 0
            async for part in self._stream:
                seen += len(part)
                try:
                    guard.count(len(part), part.count(b"\n\n") + part.count(b"\r\n\r\n"))
                except Flooded as error:
                    ending.reason = str(error)
                    raise httpx2.ReadError(str(error)) from None
                if self._most is not None and seen > self._most:
                    ending.reason = "it sent a message that is longer than what is read"
                    raise httpx2.ReadError(ending.reason)
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    class LimitedTransport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            request.headers["accept-encoding"] = "identity"  # a limit on bytes is one on what they become
            response = await super().handle_async_request(request)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise httpx2.ReadError("the server compressed its response, which it was not asked to")
            is_events = response.headers.get("content-type", "").startswith("text/event-stream")
            response.stream = LimitedStream(response.stream, None if is_events else limit)
            return response

    return LimitedTransport()
