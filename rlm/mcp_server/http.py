"""The server over streamable HTTP: a bearer token for every request, and the names that it answers to."""

from __future__ import annotations

import hmac
from typing import Any


def http_app(server: Any, token: str, host: str, port: int) -> Any:
    """Return the ASGI application of a server. Requests without the token get a 401."""
    from mcp.server.transport_security import TransportSecuritySettings

    names = [name for name in dict.fromkeys([host, "127.0.0.1", "localhost", "[::1]"]) if name not in ("0.0.0.0", "::")]
    security = TransportSecuritySettings(
        allowed_hosts=[address for name in names for address in (name, f"{name}:{port}")],
        allowed_origins=[f"http://{name}:{port}" for name in names],
    )
    return _Guarded(server.streamable_http_app(transport_security=security, host=host), token)


class _Guarded:
    """Refuses requests without the token, before anything of them is read."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) == 1 and hmac.compare_digest(given[0], self._expected):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"The bearer token is missing or wrong.\n"})


def serve_http(server: Any, token: str, host: str, port: int) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    uvicorn.run(http_app(server, token, host, port), host=host, port=port, log_level="warning", access_log=False)
