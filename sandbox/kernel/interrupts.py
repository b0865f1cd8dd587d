"""Interruption of a cell: out of time, by the user, or by a host function.

The cell does not take part in it. The signal handler answers the request from inside the interrupted frame and serves
from there. The cell's frames never run again, so neither `except:` nor `finally:` can keep it alive, and its variables
stay as they are.
"""

from __future__ import annotations

import signal
import sys
import threading
import types
from collections.abc import Callable
from typing import NoReturn

STOP_SIGNAL = signal.SIGUSR1
_FRAMES = 2_000
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF) * 2  # after the first round, none is pending
_TRIES = 10
_set_timer = signal.setitimer
_ident = threading.get_ident


class Interrupts:
    """Knows whether a cell runs, and when it may be stopped: at any line, but not within `shield`.

    `with interrupts.shield:` goes around what must be whole or holds a lock. A stop that comes meanwhile takes effect
    at its end, so nothing in there may block for long without a look at `is_due`.
    """

    def __init__(self, abandon: Callable[[types.FrameType | None], NoReturn]) -> None:
        """`abandon` answers for the cell that was in that frame, and goes on serving."""
        self._answer_for = abandon
        self._main = _ident()
        self._shields = 0
        self._due = False
        self._interrupted = False
        self.shield = _Shield(self)
        self.running = False
        self.by_host = False
        """A host function has ended the cell."""

    def listen(self) -> None:
        """Take the signals that stop a cell."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(STOP_SIGNAL, self._on_stop)

    def begin(self) -> None:
        """A cell begins."""
        self.by_host = self._due = self._interrupted = False
        self.running = True

    def end(self) -> None:
        """A cell has ended, or is over: what would call its handlers later must not meet the kernel's own code."""
        self.running = False
        for _ in range(_TRIES):
            try:
                for timer in _TIMERS:
                    _set_timer(timer, 0.0)
                return
            except BaseException:  # a handler of the cell, once more
                continue

    @property
    def is_due(self) -> bool:
        """Whether the thread that calls this is the one that runs cells, and is stopped at the end of its shield."""
        return self._due and _ident() == self._main

    def raise_shield(self) -> None:
        """Hold back a stop of the calling thread, if it is the one that runs cells."""
        if _ident() == self._main:
            self._shields += 1

    def lower_shield(self) -> None:
        """Make up for a stop that came meanwhile."""
        if _ident() == self._main:
            self._shields -= 1
            if self._shields:
                return
            if self._due:
                self._abandon(sys._getframe())
            if self._interrupted:
                self._interrupted = False
                raise KeyboardInterrupt

    def from_call(self) -> NoReturn:
        """A host function says that the cell is done: called by whichever thread of the cell made the call."""
        self.by_host = True
        if _ident() == self._main:
            self._abandon(sys._getframe())
        signal.pthread_kill(self._main, STOP_SIGNAL)
        threading.Event().wait()
        raise AssertionError("a thread of a stopped cell went on")

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        if not self.running:
            return
        if self._shields:
            self._interrupted = True
        else:
            raise KeyboardInterrupt

    def _on_stop(self, number: int, frame: types.FrameType | None) -> None:
        if not self.running:
            return
        if self._shields:
            self._due = True
        else:
            self._abandon(frame)

    def _abandon(self, frame: types.FrameType | None) -> NoReturn:
        self.end()
        sys.setrecursionlimit(_depth() + _FRAMES)  # the frames below stay where they are
        self._shields, self._due = 0, False
        self._answer_for(frame)


class _Shield:
    """`Interrupts` as a context manager."""

    __slots__ = ("_lower", "_raise")

    def __init__(self, interrupts: Interrupts) -> None:
        self._raise, self._lower = interrupts.raise_shield, interrupts.lower_shield

    def __enter__(self) -> None:
        self._raise()

    def __exit__(self, *error: object) -> None:
        self._lower()


def _depth() -> int:
    frame: types.FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
