"""Refusal of requests that do not come from this page, in a browser on this machine or elsewhere with the token.

Covered: requests by pages of other sites (`Origin`, `Sec-Fetch-Site`), DNS rebinding (`Host`), writes without the
token, framing, and content of a trace that would run or load something (content security policy).
Not covered: other users of this machine, who can reach its loopback addresses too. They can read; to write, they need
the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
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

WRITABLE = "rlm.writable"
"""The key in the scope of a request that says whether it may write."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
"""An IPv6 address in brackets or a name, and a port. Anything else is malformed: user names, zones, text after `]`."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def with_security_headers(send: Send) -> Send:
    """Return a `send` that adds the security headers to responses."""

    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            names = {name for name, _ in own} | {b"server"}
            others = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            message["headers"] = others + own
        await send(message)

    return send_with_headers


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """Return the headers of a request by their names in lower case; one that is repeated has several values."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


@dataclass(frozen=True)
class Guard:
    """An ASGI application that wraps another one: it refuses requests, and adds the security headers to responses."""

    app: App
    hosts: frozenset[str] = frozenset()
    """Allowed names in `Host` besides loopback addresses; `*` stands for any numeric address."""

    token: str | None = None
    """The first part of the path in the address that was printed. Who has it may write."""

    required: bool = True
    """Whether reading needs the token, too."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        send_with_headers, headers = with_security_headers(send), headers_of(scope)
        given = scope["path"].split("/")[1]
        trusted = self.token is not None and _same(given, self.token)
        refusal = self._refusal(scope, headers, trusted)
        if refusal is not None:
            await _answer(send_with_headers, *refusal)
            return
        if self.token is not None and trusted:
            inner = scope["path"][len(self.token) + 1 :] or "/"
            scope = {**scope, "path": inner, "raw_path": inner.encode()}
        scope = {**scope, WRITABLE: trusted}
        await self.app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: dict[str, list[str]], trusted: bool) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD") and not (trusted and scope["method"] == "PUT"):
            return (
                405,
                "Only GET and HEAD; notes and approvals are written at the address that was printed, with a token.",
            )
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._allows(host_name(hosts[0])):
            return 421, "This server does not answer to this name."
        if is_other_page(headers, {f"http://{hosts[0]}"}):
            return 403, "Requests by other pages are refused."
        if self.token is not None and self.required and not trusted:
            return 404, "The address lacks its token: use the address that was printed."
        return None

    def _allows(self, name: str) -> bool:
        if name in self.hosts or is_loopback(name):
            return True
        return "*" in self.hosts and is_address(name)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def host_name(host: str) -> str:
    """Return the name in a `Host` header in lower case, without the port; empty if the header is malformed."""
    match = _HOST.fullmatch(host)
    if match is None:
        return ""
    address, name = match.groups()
    if address is not None:
        return address.lower() if is_address(address) else ""
    return name.lower()


def is_loopback(name: str) -> bool:
    """Return whether a name always means this machine."""
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


def is_address(name: str) -> bool:
    """Return whether a name is a numeric address: no other site can make one point to this machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_other_page(headers: Mapping[str, Sequence[str]], own: Collection[str]) -> bool:
    """Return whether the page of another site makes a request. `own` are the origins of this page."""
    if any(origin not in own for origin in headers.get("origin", ())):
        return True
    sites = headers.get("sec-fetch-site", ())
    return any(site in ("cross-site", "same-site") for site in sites) and not _is_navigation(headers)


def _is_navigation(headers: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the user followed a link: the page opens, and the other site learns nothing from it."""
    return [*headers.get("sec-fetch-mode", ())] == ["navigate"] and [*headers.get("sec-fetch-dest", ())] == ["document"]


async def _answer(send: Callable[..., Awaitable[None]], status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
