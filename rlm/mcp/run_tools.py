"""The tools of MCP servers in the configuration of a run: host functions that ask for approval and are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sandbox

from ..repl.config import RunConfig
from ..repl.host_calls import call_site
from ..repl.tools import RESERVED
from ..text import clean, count
from .errors import McpToolError, NotApproved
from .listing import McpTool
from .servers import McpServers

BATCH = "mcp_batch"
_PARALLEL = 8
_MAX_BATCH = 1_000
_BATCH_DOC = (
    'Call one tool of an MCP server many times at once: mcp_batch("tracker_create_ticket", [{...}, {...}]), with the '
    'arguments of each call. Results in order; {"error": ...} where a call failed. What needs an approval is approved '
    "once for all of them."
)


def with_servers(config: RunConfig, servers: McpServers) -> RunConfig:
    """Return a configuration whose runs have the tools of the servers, which are started if they are not known yet.

    Their names stand in the prompt; `help` in the REPL prints the rest. The record of a run has the tools, so that it
    can be replayed without its servers.
    """
    inputs = {field.name for field in config.signature.inputs}
    taken = {*RESERVED, BATCH, *inputs, *config.tools, *config.values}
    tools = servers.tools(taken)
    if not tools:
        return config
    calls = _Calls(servers, tools)
    listed = {tool.name: f"tools of the MCP server `{tool.server}`" for tool in tools}
    functions = {tool.name: calls.function(tool) for tool in tools}
    if BATCH not in config.tools:
        functions[BATCH] = calls.batch_function()
    return replace(
        config,
        tools={**config.tools, **functions},
        listed={**config.listed, **listed},
        task={**(config.task or {}), "mcp": [tool.to_dict() for tool in tools]},
    )


class _Calls:
    """Makes the calls of the tools of one configuration."""

    def __init__(self, servers: McpServers, tools: tuple[McpTool, ...]) -> None:
        self._servers = servers
        self._tools = {tool.name: tool for tool in tools}
        self._made: Counter[tuple[str, str]] = Counter()

    def function(self, tool: McpTool) -> Callable[..., Any]:
        """Return the function of a tool."""

        async def call(*args: Any, **kwargs: Any) -> Any:
            arguments = _bound(tool, args, kwargs)
            self._count(tool, 1)
            await self._approved(tool, [arguments])
            return await self._servers.call(tool, arguments)

        call.__name__ = tool.name
        return sandbox.describe(call, tool.doc, "(*args, **kwargs)")

    def batch_function(self) -> Callable[..., Any]:
        """Return the function that makes many calls of one tool."""

        async def mcp_batch(tool: Any, arguments: list[dict[str, Any]]) -> list[Any]:
            return await self._batch(tool, arguments)

        return sandbox.describe(mcp_batch, _BATCH_DOC, "(tool, arguments)")

    async def _batch(self, name: Any, arguments: Any) -> list[Any]:
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise McpToolError(f"mcp_batch(tool, arguments): {name!r:.80} is no tool of an MCP server")
        if not isinstance(arguments, list) or not all(isinstance(argument, dict) for argument in arguments):
            raise McpToolError("mcp_batch(tool, arguments): a list with a dict of arguments for each call")
        if len(arguments) > _MAX_BATCH:
            raise McpToolError(f"mcp_batch: {len(arguments):,} calls; at most {_MAX_BATCH:,} at once")
        if not arguments:
            return []
        self._count(tool, len(arguments))
        await self._approved(tool, arguments)
        results: list[Any] = [None] * len(arguments)
        waiting = iter(range(len(arguments)))

        async def work() -> None:
            for index in waiting:
                try:
                    results[index] = await self._servers.call(tool, arguments[index])
                except Exception as error:
                    results[index] = {"error": f"{type(error).__name__}: {error}"}

        await asyncio.gather(*(work() for _ in range(min(len(arguments), _PARALLEL))))
        return results

    def _count(self, tool: McpTool, calls: int) -> None:
        """Count calls of a run. Raise `McpToolError` beyond the server's limit."""
        site = call_site.get()
        key = (site.run_id if site is not None else "", tool.server)
        most = self._servers.settings[tool.server].max_calls
        if self._made[key] + calls > most:
            raise McpToolError(
                f"{tool.name}(): {count(calls, 'call')} would be more than the {most:,} that a run may make to the MCP "
                f"server {tool.server!r} (`max_calls`)"
            )
        self._made[key] += calls

    async def _approved(self, tool: McpTool, calls: list[dict[str, Any]]) -> None:
        """Raise `NotApproved` unless the calls may be made."""
        settings = self._servers.settings[tool.server]
        if settings.allows(tool.tool) or (tool.read_only and settings.trust_annotations):
            return
        asked = (tool.server, tool.tool, tool.name, calls, call_site.get(), settings.approval_timeout)
        answer = await self._servers.approvals.ask(*asked)
        if answer.approved:
            return
        said = {"nobody": "nobody can be asked here", "timeout": answer.note or "nobody answered"}
        why = said.get(answer.answered_by, f"the {answer.answered_by} rejected it")
        if answer.note and answer.answered_by not in said:
            why += f": {answer.note}"
        raise NotApproved(
            f"{tool.name}() may change something and is not approved: {why}. Do not call it again; "
            f"`allow: [{clean(tool.tool)}]` in the task file would allow it."
        )


def _bound(tool: McpTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    if len(args) > len(tool.parameters):
        takes = f"takes {count(len(tool.parameters), 'argument')} by place"
        raise McpToolError(f"{tool.name}() {takes}, {len(args)} were given: {tool.name}{tool.signature}")
    by_place = dict(zip(tool.parameters, args, strict=False))
    if twice := by_place.keys() & kwargs.keys():
        raise McpToolError(f"{tool.name}(): {min(twice)!r} is given twice")
    return {**by_place, **kwargs}
