"""The connections of this process that are idle, kept for the next request.

Runs may have event loops of their own: connections that are passed on save every run the handshakes. Those of a loop
that is open are its own. A forked child starts without connections.
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
_IDLE_MOST = 256


class Connections:
    """The idle connections of this process, by origin; used from any thread and any event loop."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[Connection]] = {}
        self._swept: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def take(self, origin: Origin) -> Connection | None:
        """An idle connection that this loop may have and that can still be used: the one that was used last."""
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

    def give(self, connection: Connection) -> None:
        """Keep a connection whose last answer has been read to its end."""
        connection.idle_since = time.monotonic()
        here = asyncio.get_running_loop()
        with self._lock:
            idle = self._idle.setdefault(connection.origin, [])
            surplus = len(idle) >= _IDLE_MOST
            if not surplus:
                idle.append(connection)
            new = here not in self._swept
            self._swept.add(here)
        if surplus:
            connection.close()
        if new:
            here.call_later(_IDLE_SECONDS, self._sweep, here)

    def close(self) -> None:
        """Close all that are idle; those of another loop are closed there."""
        with self._lock:
            idle = [connection for several in self._idle.values() for connection in several]
            self._idle.clear()
        for connection in idle:
            if (loop := connection.loop) is None:
                connection.close()
            else:
                loop.call_soon_threadsafe(connection.close)

    def _sweep(self, here: asyncio.AbstractEventLoop) -> None:
        """Close what has been idle for long, as far as this loop may; look again later while there is something."""
        before = time.monotonic() - _IDLE_SECONDS
        old: list[Connection] = []
        with self._lock:
            for origin, idle in list(self._idle.items()):
                old += (gone := [one for one in idle if one.idle_since <= before and one.loop in (None, here)])
                self._idle[origin] = [one for one in idle if one not in gone]
            self._idle = {origin: idle for origin, idle in self._idle.items() if idle}
            if self._idle:
                here.call_later(_IDLE_SECONDS, self._sweep, here)
            else:
                self._swept.discard(here)
        for connection in old:
            connection.close()

    def _forked(self) -> None:
        """In a forked child: the connections are the parent's, and so is what its loops watch."""
        idle = self._idle
        self._begin()
        for connection in (one for several in idle.values() for one in several):
            connection.abandon()


connections = Connections()
atexit.register(connections.close)
os.register_at_fork(after_in_child=connections._forked)
