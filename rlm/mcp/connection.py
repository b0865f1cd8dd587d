"""One connection to an MCP server: owned by one task of the loop in `background.py`, opened anew when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from .. import __version__
from ..redaction import Redactor
from ..text import clean, shorten
from .background import keep_out_of_logs
from .errors import McpServerError, McpToolError
from .flood import FloodGuard
from .http import http_streams
from .listing import McpTool, read_listing
from .settings import McpServer
from .stdio import Ending, stdio_streams

MAX_STARTS = 4
"""How often a server is started, the first time included. One that ends again and again stays ended."""

_MAX_PAGES = 50
_MAX_TOOLS = 1_000
_GRACE_S = 5.0
_MAX_MESSAGE = 2_000


class Connection:
    """A server that is running, or is started for the next call. All coroutines run in the loop of `background.py`."""

    def __init__(self, name: str, server: McpServer, folder: Path) -> None:
        self.name, self.server = name, server
        self._folder = folder
        self._guard = FloodGuard()
        self._ending = Ending()
        self._owner: asyncio.Task[None] | None = None
        self._closing: asyncio.Event | None = None
        self._client: Any = None
        self._opening: asyncio.Lock | None = None
        self._starts = 0
        self.tools: tuple[McpTool, ...] = ()
        self.is_listed = False
        """Whether the tools are known. They stay those of the first listing: a run is not offered others midway."""

    @property
    def is_started(self) -> bool:
        """Whether there is something to end."""
        return self._owner is not None

    async def open(self) -> None:
        """Start the server, unless it runs. Raise `McpServerError`."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._client is not None and self._owner is not None and not self._owner.done():
                return
            if self._starts >= MAX_STARTS:
                raise self._error(f"has ended {MAX_STARTS} times and is not started again; {self._ending.describe()}")
            self._starts += 1
            await self.close()
            await self._start()

    async def _start(self) -> None:
        import mcp  # noqa: F401  # its loggers are there now

        keep_out_of_logs()
        self._ending, self._closing = Ending(), asyncio.Event()
        self._guard.reset()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.ensure_future(self._own(ready))
        try:
            async with asyncio.timeout(self.server.start_timeout):
                await asyncio.shield(ready)
        except TimeoutError:
            self._owner.cancel()
            await asyncio.wait([self._owner])
            seconds, said = self.server.start_timeout, self.shown(self._ending.last_words())
            raise self._error(f"did not answer within {seconds:g} s (`start_timeout`).{said}") from None

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """Enter the connection, and leave it when it is to be closed or has broken."""
        assert self._closing is not None
        try:
            async with self._streams() as streams, self._client_of(streams) as client:
                listed = await self._list(client)
                if not self.is_listed:
                    self.tools, self.is_listed = read_listing(self.name, self.server, listed), True
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                await self._closing.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(self._cannot_start(error))
                ready.exception()  # whoever waited may have gone
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._client = None

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        if self.server.url is not None:
            streams = http_streams(self.server, self._guard, self._ending)
        else:
            streams = stdio_streams(self.server, self._folder, self._guard, self._ending)
        async with streams as opened:
            yield opened

    def _client_of(self, streams: Any) -> Any:
        """Return the client of the package `mcp`. It offers the server nothing: no model, no files, no questions."""
        from mcp import Client, Implementation

        return Client(
            contextlib.nullcontext(streams),
            client_info=Implementation(name="rlm", version=__version__),
            read_timeout_seconds=self.server.start_timeout,
            cache=None,
        )

    async def _list(self, client: Any) -> list[Any]:
        from mcp.types import PaginatedRequestParams

        if client.server_capabilities.tools is None:
            return []
        tools: list[Any] = []
        cursor = None
        for _ in range(_MAX_PAGES):
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(tools) >= _MAX_TOOLS:
                break
        return tools[:_MAX_TOOLS]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its `CallToolResult`. Raise `McpServerError`, `McpToolError` or `TimeoutError`."""
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        return await self._send(request, CallToolResult, f"{clean(tool)}()")

    async def read(self, uri: str) -> Any:
        """Read a resource and return its `ReadResourceResult`."""
        from mcp.types import ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult

        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        return await self._send(request, ReadResourceResult, uri)

    async def _send(self, request: Any, result_type: Any, what: str) -> Any:
        from mcp import MCPError
        from pydantic import ValidationError

        await self.open()
        client, seconds = self._client, self.server.timeout
        if client is None:
            raise await self._lost(what)
        self._guard.reset()
        try:
            # Sending alone can take for ever: a program need not read its input.
            async with asyncio.timeout(seconds + _GRACE_S):
                return await client.session.send_request(request, result_type, request_read_timeout_seconds=seconds)
        except TimeoutError:
            raise TimeoutError(self._too_slow(what)) from None
        except ValidationError:
            raise McpToolError(
                f"{what}: the MCP server {self.name!r} answered with something that is no result"
            ) from None
        except MCPError as error:
            raise await self._failed(error, what) from None
        except RuntimeError as error:  # the session was closed meanwhile
            raise await self._lost(f"{what} ({error})") from None

    async def _failed(self, error: Any, what: str) -> Exception:
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        if error.error.code == REQUEST_TIMEOUT:
            return TimeoutError(self._too_slow(what))
        if error.error.code == CONNECTION_CLOSED or self._ending.reason is not None:
            return await self._lost(what)
        return McpToolError(f"{what}: the MCP server {self.name!r} refused the call: {self.shown(str(error))}")

    async def _lost(self, what: str) -> McpServerError:
        """Leave a connection that broke, and return the error that says so."""
        await self.close()
        again = "It is started anew for the next call." if self._starts < MAX_STARTS else "It is not started again."
        return self._error(f"ended during {what}: {self._last_words()} {again}")

    async def close(self) -> None:
        """End the server, and wait until it has ended."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        if self._closing is not None:
            self._closing.set()
        await asyncio.wait([owner], timeout=30)
        if not owner.done():
            owner.cancel()

    def forget(self) -> None:
        """After a fork: the server is the parent's. The next call starts one of our own."""
        self._owner = self._closing = self._client = self._opening = None
        self._starts = 0

    def shown(self, text: str) -> str:
        """Return text of the server as it may be shown: without secrets and control characters, and not long."""
        return shorten(clean(Redactor().text(text)), _MAX_MESSAGE)

    def _last_words(self) -> str:
        return self.shown(self._ending.describe())

    def _too_slow(self, what: str) -> str:
        return f"{what}: the MCP server {self.name!r} did not answer within {self.server.timeout:g} s (`timeout`)"

    def _error(self, problem: str) -> McpServerError:
        return McpServerError(f"the MCP server {self.name!r} {problem}")

    def _cannot_start(self, error: BaseException) -> McpServerError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, McpServerError):
            return self._error(f"cannot be started: {error}")
        known = self._ending.reason is not None or self._ending.exit_code is not None or self._ending.stderr
        why = self._last_words() if known else self.shown(f"{type(error).__name__}: {error}")
        return self._error(f"cannot be {'reached' if self.server.url else 'started'}: {why}")
