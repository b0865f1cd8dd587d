"""Runs of scripted models with tools of MCP servers, for tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rlm
from rlm.mcp.servers import McpServers
from rlm.models.scripted import scripted_lm

SERVER = Path(__file__).with_name("mcp_server.py")


def server(behaviour: str = "honest", *arguments: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of a server with this behaviour."""
    return {"command": [sys.executable, str(SERVER), behaviour, *arguments], "timeout": 30, **settings}


@contextmanager
def servers(behaviour: str = "honest", *arguments: str, approve: Any = None, **settings: Any) -> Iterator[McpServers]:
    """Return one server under the name `t`, and end it."""
    with McpServers({"t": server(behaviour, *arguments, **settings)}, approve=approve) as opened:
        yield opened


def run_cells(mcp: McpServers, cells: Sequence[str], **options: Any) -> Any:
    """Return the result of a run whose model writes these cells; the last one submits `answer`."""
    replies = [f"```python\n{cell}\n```" for cell in cells]
    predict = rlm.Predict("question: str -> answer: str", lm=scripted_lm(replies), mcp=mcp, record=False, **options)
    return predict.run_with_fallback(question="What?")
