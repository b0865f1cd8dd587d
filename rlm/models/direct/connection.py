"""A connection to a server, plain or TLS, that can be used in one event loop after another.

It belongs to the event loop that used it last, until that loop is closed. Deadlines are times of the running loop.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import socket
import ssl
import threading
import time
import weakref
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


_IDLE_SECONDS = 15.0  # servers close idle connections too, some after a few seconds
_MAX_IDLE = 256


class ConnectionPool:
    """Idle connections by origin. Its methods can be called from any thread and any event loop."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[Connection]] = {}
        self._swept: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def acquire(self, origin: Origin) -> Connection | None:
        """Return the most recently used idle connection that is still open and that the running loop may use."""
        here = asyncio.get_running_loop()
        while True:
            with self._lock:
                idle = self._idle.get(origin, [])
                at = next((at for at in reversed(range(len(idle))) if idle[at].loop in (None, here)), None)
                if at is None:
                    return None
                connection = idle.pop(at)
            if time.monotonic() - connection.idle_since < _IDLE_SECONDS and connection.quiet:
                return connection
            connection.close()

    def release(self, connection: Connection) -> None:
        """Take back a connection whose last response has been read to its end."""
        connection.idle_since = time.monotonic()
        here = asyncio.get_running_loop()
        with self._lock:
            idle = self._idle.setdefault(connection.origin, [])
            surplus = len(idle) >= _MAX_IDLE
            if not surplus:
                idle.append(connection)
            first = here not in self._swept
            self._swept.add(here)
        if surplus:
            connection.close()
        if first:
            here.call_later(_IDLE_SECONDS, self._sweep, here)

    def close(self) -> None:
        """Close all idle connections, each in its own loop."""
        with self._lock:
            idle = [connection for connections in self._idle.values() for connection in connections]
            self._idle.clear()
        for connection in idle:
            if (loop := connection.loop) is None:
                connection.close()
            else:
                loop.call_soon_threadsafe(connection.close)

    def _sweep(self, here: asyncio.AbstractEventLoop) -> None:
        """Close what this loop may close and has been idle for long; repeat while there are idle connections."""
        before = time.monotonic() - _IDLE_SECONDS
        expired: list[Connection] = []
        with self._lock:
            for origin, idle in list(self._idle.items()):
                old = [each for each in idle if each.idle_since <= before and each.loop in (None, here)]
                self._idle[origin] = [each for each in idle if each not in old]
                expired += old
            self._idle = {origin: idle for origin, idle in self._idle.items() if idle}
            if self._idle:
                here.call_later(_IDLE_SECONDS, self._sweep, here)
            else:
                self._swept.discard(here)
        for connection in expired:
            connection.close()

    def _forked(self) -> None:
        """In a forked child: leave the connections, and the descriptors that its loops watch, to the parent."""
        idle = self._idle
        self._begin()
        for connection in (each for connections in idle.values() for each in connections):
            connection.abandon()


connections = ConnectionPool()
atexit.register(connections.close)
os.register_at_fork(after_in_child=connections._forked)
