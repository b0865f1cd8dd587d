"""An MCP server over HTTP without the package `mcp`, whose behaviour is chosen by name: an ASGI application."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .mcp_server import answer

FLOOD = b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}\n\n'


class HttpServer:
    """Answers like `mcp_server.py`; calls of tools behave as `behaviour` says."""

    def __init__(self, behaviour: str) -> None:
        self.behaviour = behaviour
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.headers.append(dict(scope["headers"]))
        if scope["method"] != "POST":
            await _respond(send, 405, b"")
            return
        message = json.loads(await _body(receive))
        if "id" not in message:
            await _respond(send, 202, b"")
            return
        if message["method"] == "tools/call" and self.behaviour != "honest":
            await self._misbehave(send)
            return
        result = answer("honest", message)
        reply = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        await _respond(send, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}).encode())

    async def _misbehave(self, send: Any) -> None:
        match self.behaviour:
            case "hangs":
                await asyncio.sleep(600)
            case "megabytes":
                await _respond(send, 200, b'{"jsonrpc": "2.0", "x": "' + b"x" * 20_000_000 + b'"}')
            case "compressed":
                packed = gzip.compress(b" " * 50_000_000)
                await _respond(send, 200, packed, [(b"content-encoding", b"gzip")])
            case "redirects":
                await _respond(send, 307, b"", [(b"location", b"http://127.0.0.1:9/mcp")])
            case "fails":
                await _respond(send, 500, b"out of cheese")
            case "floods":
                headers = [(b"content-type", b"text/event-stream")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                for _ in range(1_000):
                    await send({"type": "http.response.body", "body": FLOOD * 100, "more_body": True})


async def _body(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _respond(send: Any, status: int, body: bytes, headers: Any = ()) -> None:
    headers = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Serve an application on a free port and yield the address."""
    import uvicorn

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(200)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(30)
