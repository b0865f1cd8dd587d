"""Listeners of the host on every kind of address that code on this machine could reach."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Listeners:
    """Open ears on every address that code on this machine could reach."""

    addresses: dict[str, object] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)

    def listen(self, name: str, family: int, kind: int, address: object) -> None:
        one = socket.socket(family, kind)
        one.bind(address)  # type: ignore[arg-type]
        if isinstance(address, str) and not address.startswith("\0"):
            Path(address).chmod(0o777)
        if kind == socket.SOCK_STREAM:
            one.listen(8)
        one.settimeout(0.1)
        self.addresses[name] = one.getsockname()
        self._sockets.append(one)

    def collect(self) -> list[str]:
        """Who has called, on which address."""
        for name, one in zip(self.addresses, self._sockets, strict=True):
            one.setblocking(False)
            try:
                while True:
                    if one.type == socket.SOCK_STREAM:
                        one.accept()[0].close()
                        self.heard.append(name)
                    else:
                        self.heard.append(f"{name}: {one.recv(100)!r}")
            except BlockingIOError:
                continue
        return self.heard

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def everywhere(place: Path) -> Listeners:
    """Listeners of every kind; those with a path lie in `place`."""
    ears = Listeners()
    ears.listen("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    ears.listen("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    known = Path("/proc/net/if_inet6")
    if known.exists() and known.read_text():
        ears.listen("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        ears.listen("udp6", socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0))
    ears.listen("unix", socket.AF_UNIX, socket.SOCK_STREAM, f"{place}/stream")
    ears.listen("unix-datagrams", socket.AF_UNIX, socket.SOCK_DGRAM, f"{place}/datagrams")
    ears.listen("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0escapes-{secrets.token_hex(8)}")
    ears.listen("abstract-datagrams", socket.AF_UNIX, socket.SOCK_DGRAM, f"\0escapes-{secrets.token_hex(8)}")
    return ears
