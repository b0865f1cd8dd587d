"""`McpServers`: the servers of a task or of a `Predict`, started when they are first needed and ended with it."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import weakref
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from . import background
from .approvals import Approvals, Approver
from .connection import Connection
from .content import resource_value, value_of
from .errors import McpServerError, require_mcp
from .listing import McpTool, with_free_names
from .settings import McpServer, check_server_name

_CLOSE_S = 15.0


class McpServers:
    """Several servers by name. One object can serve many runs at once, from any thread."""

    def __init__(
        self,
        servers: Mapping[str, Any],
        *,
        folder: Path | str | None = None,
        approve: Approver | None = None,
        recorded: Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        """Nothing is started.

        Args:
            servers: By name: `McpServer`, a mapping as in a task file, a command, or a URL.
            folder: Where commands run. Default: the current directory.
            approve: Asked about calls of tools that may change something: see `rlm.mcp.approvals`.
            recorded: The tools of an earlier run. Then no server is started before one is called.
        """
        self.settings = {check_server_name(name): McpServer.of(server) for name, server in servers.items()}
        self.approvals = Approvals(approve)
        self._recorded = None if recorded is None else tuple(McpTool.from_dict(record) for record in recorded)
        place = Path(folder) if folder is not None else Path.cwd()
        self._connections = {name: Connection(name, server, place) for name, server in self.settings.items()}
        weakref.finalize(self, _end, tuple(self._connections.values())).atexit = False
        _all_servers.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> McpServers:
        return self

    @property
    def is_open(self) -> bool:
        """Whether `tools` would return at once."""
        return self._recorded is not None or all(connection.is_listed for connection in self._connections.values())

    def open(self) -> None:
        """Start the servers and list their tools. Raise `McpServerError`."""
        if not self.is_open:
            require_mcp()
            background.submit(self._open()).result()

    async def aopen(self) -> None:
        """As `open`, without stalling the event loop."""
        if not self.is_open:
            require_mcp()
            await background.run(self._open())

    async def _open(self) -> None:
        await asyncio.gather(*(connection.open() for connection in self._connections.values()))

    def tools(self, taken: Collection[str] = ()) -> tuple[McpTool, ...]:
        """Return the tools, with names that hide none of those that are taken."""
        if self._recorded is not None:
            return self._recorded
        self.open()
        return with_free_names((tool for connection in self._connections.values() for tool in connection.tools), taken)

    async def call(self, tool: McpTool, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its value."""
        require_mcp()
        result = await background.run(self._connections[tool.server].call(tool.tool, arguments))
        return value_of(tool, result, self.settings[tool.server].max_result_bytes)

    def read_resource(self, server: str, uri: str) -> Any:
        """Return the text of a resource, or its parts. Raise `McpError`."""
        if server not in self._connections:
            known = ", ".join(self._connections) or "none"
            raise McpServerError(f"there is no MCP server {server!r} under `mcp:`; there is {known}")
        require_mcp()
        result = background.submit(self._connections[server].read(uri)).result()
        return resource_value(uri, result, self.settings[server].max_result_bytes)

    def close(self) -> None:
        """End the servers. They are started anew when they are needed again."""
        for future in _end(tuple(self._connections.values())):
            with contextlib.suppress(Exception):
                future.result(_CLOSE_S)

    def __enter__(self) -> McpServers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_all_servers: weakref.WeakSet[McpServers] = weakref.WeakSet()


def _end(connections: Iterable[Connection]) -> list[Future[None]]:
    """End servers, without waiting: this runs wherever garbage is collected."""
    return [background.submit(connection.close()) for connection in connections if connection.is_started]


def _forget_all() -> None:
    """After a fork: what is open belongs to the parent."""
    for servers in list(_all_servers):
        for connection in servers._connections.values():
            connection.forget()


os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _close_all() -> None:
    for servers in list(_all_servers):
        servers.close()
