"""The server on its own socket, until Ctrl-C: what `rlm serve` starts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..files import home
from ..viewer.security import is_loopback
from ..viewer.server import ANY_ADDRESS, listen
from ..viewer.server import Server as PageServer
from .app import application
from .context import Context, ServerSettings
from .runs import Runs
from .sessions import OpenSessions
from .store import ServerStore
from .tasks import ServedTask
from .tokens import Tokens

_SHUTDOWN_S = 3
_HEADER_BYTES = 65_536
_STALLED_MS = 90_000


@dataclass(frozen=True)
class Server(PageServer):
    """A server whose socket listens; `run` starts to answer. Its address has no slash at the end."""

    context: Context


def make_server(
    tasks: Mapping[str, ServedTask],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    address: str | None = None,
    settings: ServerSettings | None = None,
) -> Server:
    """Listen on a port; 0 means any free one. Raise `OSError` if that fails, `ServerInUse` if `RLM_HOME` is in use.

    `address` is the one at which others reach the server, behind a proxy for example.
    """
    import uvicorn

    settings = settings or ServerSettings()
    root = home()
    listener = listen(host, port)
    try:
        _end_stalled(listener)
        store = ServerStore(root)
    except BaseException:
        listener.close()
        raise
    own = _address(listener, host)
    public = (address or own).rstrip("/")
    sessions = OpenSessions(store, most=settings.open_sessions, idle_seconds=settings.idle_seconds, root=root)
    context = Context(
        tasks=dict(tasks),
        tokens=Tokens(),
        store=store,
        sessions=sessions,
        runs=Runs(store, sessions, most=settings.runs),
        root=root,
        address=lambda: public,
    )
    open_to_others = not is_loopback(host)
    names = {host.lower(), socket.gethostname().lower()} if open_to_others else set()
    if host in ANY_ADDRESS:
        names.add("*")
    if address is not None:
        names.add(_host_of(address))
    app: Any = application(context, hosts=frozenset(names), origins=frozenset({public}))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=settings.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        http="h11",
    )
    return Server(listener, own, open_to_others, uvicorn.Server(config), context)


def _end_stalled(listener: socket.socket) -> None:
    """Let the operating system end connections whose other side takes nothing any more, where it can."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, _STALLED_MS)


def _address(listener: socket.socket, host: str) -> str:
    name = socket.gethostname() if host in ANY_ADDRESS else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{listener.getsockname()[1]}"


def _host_of(address: str) -> str:
    from urllib.parse import urlsplit

    return (urlsplit(address).hostname or "").lower()
