"""The guard of the server: every request is refused or belongs to a token, before its body is read.

Covered: requests without a valid token, by pages of other sites (`Origin`, `Sec-Fetch-Site`), by other names of this
machine (`Host`, DNS rebinding), and with bodies above the limit of the token. The security headers are those of the
viewer. Not covered: who listens to the network, where the server is reached without TLS.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from ..viewer.security import (
    App,
    Receive,
    Scope,
    Send,
    headers_of,
    host_name,
    is_address,
    is_loopback,
    is_other_page,
    with_security_headers,
)
from .errors import RequestRefused
from .requests import TOKEN, body_limit, too_large
from .tokens import TokenError, Tokens

_PUBLIC = ("/", "/openapi.json", "/health")
_PUBLIC_FOLDER = "/static/"
_MAX_LENGTH = 20
"""Digits in `Content-Length`: more is not a length."""


@dataclass(frozen=True)
class Guard:
    """An ASGI application that wraps the one of the server."""

    app: App
    tokens: Tokens
    hosts: frozenset[str] = frozenset()
    """Names in `Host` besides loopback addresses; `*` stands for any numeric address."""

    origins: frozenset[str] = frozenset()
    """Addresses of this server's own page besides that in `Host`, such as one behind a proxy."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        send_with_headers, headers = with_security_headers(send), headers_of(scope)
        try:
            self._check_origin(headers)
            if not _is_public(scope["path"]):
                token = await self._token(headers)
                _check_length(headers, body_limit(token))
                scope = {**scope, TOKEN: token}
        except RequestRefused as refused:
            await refuse(send_with_headers, refused)
            return
        await self.app(scope, receive, send_with_headers)

    def _check_origin(self, headers: dict[str, list[str]]) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._allows(host_name(hosts[0])):
            raise RequestRefused(421, "This server does not answer to this name; see --address.", "wrong_host")
        if is_other_page(headers, {f"http://{hosts[0]}", *self.origins}):
            raise RequestRefused(403, "Requests by pages of other sites are refused.", "wrong_origin")

    def _allows(self, name: str) -> bool:
        return name in self.hosts or is_loopback(name) or ("*" in self.hosts and is_address(name))

    async def _token(self, headers: dict[str, list[str]]) -> Any:
        given = headers.get("authorization", [])
        scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise RequestRefused(
                401, "Send a token: `Authorization: Bearer rlm_...`; see `rlm tokens add`.", "no_token"
            )
        try:
            token = await asyncio.to_thread(self.tokens.check, secret.strip())
        except TokenError as error:
            raise RequestRefused(503, "The tokens cannot be read by the server.", "tokens_unreadable") from error
        if token is None:
            raise RequestRefused(401, "This token is not known, or not any more.", "wrong_token")
        return token


async def refuse(send: Send, refused: RequestRefused) -> None:
    """Send a refusal."""
    body = json.dumps(refused.body()).encode()
    headers = {**refused.headers(), "content-type": "application/json", "content-length": str(len(body))}
    if refused.status in (408, 413):
        headers["connection"] = "close"  # the rest of the request is not read
    listed = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": listed})
    await send({"type": "http.response.body", "body": body})


def _is_public(path: str) -> bool:
    return path in _PUBLIC or path.startswith(_PUBLIC_FOLDER)


def _check_length(headers: dict[str, list[str]], limit: int) -> None:
    lengths = headers.get("content-length", [])
    if lengths and (len(lengths[0]) > _MAX_LENGTH or not lengths[0].isdigit() or int(lengths[0]) > limit):
        raise too_large(limit)
