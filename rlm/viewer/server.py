"""The server of the page, on its own socket, until Ctrl-C."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .security import is_loopback

ANY_ADDRESS = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Server:
    """A server whose socket listens; `run` starts to answer."""

    listener: socket.socket
    address: str
    """The address to open in a browser, with the token where there is one."""

    open_to_others: bool
    uvicorn: Any

    def run(self) -> None:
        """Serve until Ctrl-C, or until `stop`."""
        try:
            self.uvicorn.run(sockets=[self.listener])
        except KeyboardInterrupt:
            pass

    def stop(self) -> None:
        """End `run`, from another thread."""
        self.uvicorn.should_exit = True


def make_server(
    home: Path | str | None = None, *, host: str = "127.0.0.1", port: int = 0, log: Path | None = None
) -> Server:
    """Listen on a port; 0 means any free one. Raises `OSError` if that fails.

    With the `log` of an evaluation, the page shows its table.
    """
    import uvicorn

    from .app import application

    listener = listen(host, port)
    open_to_others = not is_loopback(host)
    token = secrets.token_urlsafe(24)
    names = (
        {host.lower(), socket.gethostname().lower(), *(["*"] if host in ANY_ADDRESS else [])}
        if open_to_others
        else set()
    )
    app: Any = application(home, hosts=frozenset(names), token=token, required=open_to_others, log=log)
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )
    return Server(listener, _address(listener, host, token), open_to_others, uvicorn.Server(settings))


def open_browser(address: str) -> bool:
    """Open the address in a browser if there is a display; return whether it was opened."""
    if not has_display():
        return False
    import webbrowser

    return webbrowser.open(address)


def has_display(environment: Callable[[str], str | None] = os.environ.get) -> bool:
    """Return whether the user of this process would see a browser window."""
    if environment("SSH_CONNECTION") or environment("SSH_TTY"):
        return False
    return sys.platform == "darwin" or bool(environment("DISPLAY") or environment("WAYLAND_DISPLAY"))


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port; 0 means any free one. Raises `OSError`."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


def _address(listener: socket.socket, host: str, token: str) -> str:
    port = listener.getsockname()[1]
    name = socket.gethostname() if host in ANY_ADDRESS else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/{token}/"
