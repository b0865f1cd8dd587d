"""The errors of MCP servers, as a caller or a cell sees them."""

from __future__ import annotations

from ..errors import RlmError


class McpError(RlmError):
    """Something went wrong with an MCP server."""


class McpServerError(McpError):
    """An MCP server cannot be started or reached, has ended, or does not keep to the protocol."""


class McpToolError(McpError):
    """A tool of an MCP server reported an error, or was called in a way that cannot be sent."""


class NotApproved(McpError):
    """A tool of an MCP server that may change something was called, and nobody approved the call."""


def require_mcp() -> None:
    """Raise `MissingExtra` where the package `mcp` is not installed."""
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        from ..models.local.errors import MissingExtra

        raise MissingExtra("mcp", "MCP servers need the package mcp, which is not installed") from None
