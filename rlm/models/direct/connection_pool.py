"""The idle connections of this process.

Runs may have event loops of their own; connections are passed from one loop to the next, so that runs need no
handshakes of their own. Connections of a loop that is open are used in that loop only. A forked child starts with none.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref

from .connection import Connection, Origin

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
