"""A connection to a server, plain or TLS, that can be used in one event loop after another.

It belongs to the event loop that used it last, until that loop is closed. Deadlines are times of the running loop.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from typing import Any, NamedTuple

_RECEIVE = 64 * 1024


class Origin(NamedTuple):
    """A server's address."""

    tls: bool
    host: str
    port: int


@functools.cache
def _tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Connection:
    """A connection with one user at a time. `close` may be called at any time."""

    def __init__(self, origin: Origin, sock: socket.socket) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._socket = sock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[bytes] | None = None
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    @classmethod
    async def open(cls, origin: Origin, seconds: float) -> Connection:
        """Connect to the first address that accepts. Raises `OSError`, of which `TimeoutError` is one."""
        try:
            async with asyncio.timeout(seconds):
                return await cls._open(origin, asyncio.get_running_loop().time() + seconds)
        except TimeoutError:
            raise TimeoutError(f"no connection to {origin.host}:{origin.port} in {seconds:g} seconds") from None

    @classmethod
    async def _open(cls, origin: Origin, deadline: float) -> Connection:
        last: OSError | None = None
        for family, kind, protocol, address in await _addresses(origin):
            try:
                connection = cls(origin, socket.socket(family, kind, protocol))
            except OSError as error:  # a machine without IPv6, say
                last = error
                continue
            try:
                await connection._connect(address, deadline)
            except OSError as error:
                connection.close()
                last = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise last or OSError(f"{origin.host} has no address")

    async def send(self, data: bytes, deadline: float) -> None:
        """Send all of the data. Raises `TimeoutError` at the deadline."""
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        await self._send(data, deadline)

    async def receive(self, deadline: float) -> bytes:
        """Return the next bytes; none at the end of the connection. Raises `TimeoutError` at the deadline."""
        if self._tls is None:
            return await self._receive(deadline)
        while True:
            try:
                return self._tls.read(_RECEIVE)
            except ssl.SSLWantReadError:
                await self._exchange(deadline)
            except ssl.SSLZeroReturnError:
                return b""

    @property
    def quiet(self) -> bool:
        """Whether nothing has arrived since the last response, not even its end: only then can it be reused."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it belongs to; None if any loop may use it."""
        return None if self._loop is None or self._loop.is_closed() else self._loop

    def close(self) -> None:
        """Close the socket at once, without TLS's closing message. Call this in the connection's loop."""
        self._unwatch()
        self._socket.close()

    def abandon(self) -> None:
        """After a fork: close our copy of the descriptor. The connection and its loop belong to the parent."""
        self._socket.close()

    async def _connect(self, address: Any, deadline: float) -> None:
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(self._socket, address)
        if self.origin.tls:
            await self._handshake(deadline)

    async def _handshake(self, deadline: float) -> None:
        """Do the TLS handshake, with verification of the certificate."""
        context = _tls_context()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=self.origin.host)
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._exchange(deadline)
            else:
                return await self._send(self._outgoing.read(), deadline)

    async def _exchange(self, deadline: float) -> None:
        """Send TLS's pending records, and pass it the next bytes of the server."""
        await self._send(self._outgoing.read(), deadline)
        data = await self._receive(deadline)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _send(self, data: bytes, deadline: float) -> None:
        try:
            sent = self._socket.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            async with asyncio.timeout_at(deadline):
                await asyncio.get_running_loop().sock_sendall(self._socket, memoryview(data)[sent:])

    async def _receive(self, deadline: float) -> bytes:
        loop = asyncio.get_running_loop()
        if loop.time() >= deadline:  # the timer never fires while there always are bytes to read
            raise TimeoutError
        if self._loop is not loop:
            self._unwatch()
            loop.add_reader(self._socket.fileno(), self._readable)
            self._loop = loop
        waiter: asyncio.Future[bytes] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_at(deadline, _expire, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _readable(self) -> None:
        """Handle readability: bytes, the end or an error."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._unwatch()  # left for the next `receive`; until then it would be reported in every turn of the loop
            return
        try:
            waiter.set_result(self._socket.recv(_RECEIVE))
        except BlockingIOError:
            pass
        except OSError as error:
            waiter.set_exception(error)

    def _unwatch(self) -> None:
        loop, self._loop = self.loop, None
        if loop is not None:
            loop.remove_reader(self._socket.fileno())


def _expire(waiter: asyncio.Future[bytes]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


async def _addresses(origin: Origin) -> list[tuple[int, int, int, Any]]:
    """Return the addresses of a server. Only names are resolved in a thread."""
    try:
        return _resolve(origin, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().run_in_executor(None, _resolve, origin, 0)


def _resolve(origin: Origin, flags: int) -> list[tuple[int, int, int, Any]]:
    infos = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in infos]
