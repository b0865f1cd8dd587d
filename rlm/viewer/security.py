"""Who may ask: this page, in a browser on this machine, or elsewhere with the token. Everything else is refused.

Covers: pages of other sites that send requests here (`Origin`, `Sec-Fetch-Site`), names that are made to point here
(`Host`), methods that write, framing, and anything in a trace that would want to run or to load something.
Does not cover: other users of this machine, who can reach its loopback addresses too.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Awaitable[None]]


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another one: refuses what it should not answer, and adds the headers."""

    app: App
    hosts: frozenset[str] = frozenset()
    """Names by which this server may be called, besides loopback addresses; `*` is any address given as a number."""

    token: str | None = None
    """What the path has to begin with."""

    async def __call__(
        self, scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[None]]
    ) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                names = {name for name, _ in ours} | {b"server"}
                message["headers"] = [one for one in message.get("headers", ()) if one[0].lower() not in names] + ours
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send_with_headers, *refusal)
            return
        if self.token is not None:
            inner = scope["path"][len(self.token) + 1 :] or "/"
            scope = {**scope, "path": inner, "raw_path": inner.encode()}
        await self.app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "Only GET and HEAD: nothing here can be changed."
        host = headers.get("host", "")
        if not self._known(host):
            return 421, "This server is not called that."
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "Only this server's own page may ask."
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_navigation(headers):
            return 403, "Only this server's own page may ask."
        if self.token is not None:
            given = scope["path"].split("/")[1]
            if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self.token.encode()):
                return 404, "The address needs its token: use the one that was printed."
        return None

    def _known(self, host: str) -> bool:
        name = host_name(host)
        if name in self.hosts or is_loopback(name):
            return True
        return "*" in self.hosts and is_address(name)


def host_name(host: str) -> str:
    """The name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def is_loopback(name: str) -> bool:
    """Whether a name can mean only this machine."""
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


def is_address(name: str) -> bool:
    """Whether a name is an address in numbers: no other site can make one point here."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_navigation(headers: dict[str, str]) -> bool:
    """A link that somebody clicked: the page opens, and its address gives nothing to the other site."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


async def _answer(send: Callable[..., Awaitable[None]], status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
