"""The clock of sessions that run no cell: one thread for all sessions of a process, asleep until something is due.

While a cell runs, its `Exchange` keeps the clocks. Between cells a session grows older, and threads that a cell has
left behind go on.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Protocol

_BUSY_SECONDS = 1.0


class Idler(Protocol):
    """A session between two cells."""

    def check_idle(self, now: float) -> float | None:
        """End it if it must end; return when it must be looked at again, None for never, `now` if it runs a cell."""


class IdleClock:
    """Looks at idle sessions when they are due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sessions: weakref.WeakSet[Idler] = weakref.WeakSet()
        self._wake_at = float("inf")
        self._started = False

    def watch(self, session: Idler, due: float) -> None:
        """Look at a session then, and from then on whenever it says so."""
        with self._changed:
            self._sessions.add(session)
            if due < self._wake_at:
                self._wake_at = due
                if not self._started:
                    self._started = True
                    threading.Thread(target=self._run, daemon=True, name="rlm-idle-clock").start()
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while (left := self._wake_at - time.monotonic()) > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                self._wake_at = float("inf")
                sessions = list(self._sessions)
            for session in sessions:
                self._look(session)
            del sessions

    def _look(self, session: Idler) -> None:
        now = time.monotonic()
        due = session.check_idle(now)
        if due is None:
            with self._changed:
                self._sessions.discard(session)
        else:
            self.watch(session, due if due > now else now + _BUSY_SECONDS)


_clock = IdleClock()
_owner = os.getpid()


def idle_clock() -> IdleClock:
    """Return the clock of this process."""
    global _clock, _owner
    if _owner != os.getpid():  # threads do not survive a fork
        _clock, _owner = IdleClock(), os.getpid()
    return _clock
