"""Servers over streamable HTTP: honest ones, and what hostile ones can send."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import rlm
from rlm.mcp.servers import McpServers
from tests.support.mcp_http_server import HttpServer, listening
from tests.support.mcp_runs import run_cells

pytest.importorskip("mcp")

_CAUGHT = "try:\n    t_echo('a')\nexcept Exception as error:\n    print('error', type(error).__name__, error)"


def test_a_server_over_http_is_called_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", "only-for-the-tracker")
    server = HttpServer("honest")
    with listening(server) as url, McpServers({"t": {"url": url, "token_env": "TRACKER_TOKEN"}}) as mcp:
        assert run_cells(mcp, ["SUBMIT(answer=t_echo('a') + t_echo('b'))"]).outputs.answer == "ab"
        assert mcp.read_resource("t", "note://x") == "the text of note://x"
    assert {headers[b"authorization"] for headers in server.headers} == {b"Bearer only-for-the-tracker"}


def test_a_token_that_is_not_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACKER_TOKEN", raising=False)
    mcp = McpServers({"t": {"url": "http://127.0.0.1:9/mcp", "token_env": "TRACKER_TOKEN"}})
    with pytest.raises(rlm.McpServerError, match="TRACKER_TOKEN, which the MCP server needs, is not set"):
        mcp.open()


def test_an_address_without_a_server_is_said() -> None:
    with pytest.raises(rlm.McpServerError, match="'t' cannot be reached"):
        McpServers({"t": {"url": "http://127.0.0.1:9/mcp"}}).open()


@pytest.mark.parametrize("behaviour", ["hangs", "megabytes", "compressed", "redirects", "fails", "floods"])
def test_a_server_that_breaks_is_an_error_in_the_cell(behaviour: str, caplog: pytest.LogCaptureFixture) -> None:
    settings: dict[str, Any] = {"timeout": 1 if behaviour == "hangs" else 60}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(listening(HttpServer(behaviour)))
        mcp = stack.enter_context(McpServers({"t": {"url": url, **settings}}))
        result = run_cells(mcp, [_CAUGHT, "SUBMIT(answer='still here')"])
    assert result.outputs.answer == "still here"
    kind = result.history[0].output.split()[1]
    assert kind in ("McpServerError", "McpToolError", "TimeoutError"), result.history[0].output
    assert (kind == "TimeoutError") == (behaviour == "hangs"), result.history[0].output
    lines = [line for line in caplog.text.splitlines() if "socket.send() raised exception." not in line]
    assert lines == [], "what a server sends is quoted in no log"
