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


class Interrupts:
    """Knows whether a cell runs, and when it may be stopped: at any line, but not in the middle of a message."""

    def __init__(self, abandon: Callable[[types.FrameType | None], NoReturn]) -> None:
        """`abandon` answers for the cell that was in that frame, and goes on serving."""
        self._answer_for = abandon
        self._main = threading.get_ident()
        self._sending = 0
        self._due = False
        self.running = False
        self.by_host = False
        """A host function has ended the cell."""

    def listen(self) -> None:
        """Take the signals that stop a cell."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(STOP_SIGNAL, self._on_stop)

    def begin(self) -> None:
        """A cell begins."""
        self.by_host = False
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

    def message_begins(self) -> None:
        """From here to `message_ends` the thread that runs cells is not stopped."""
        if threading.get_ident() == self._main:
            self._sending += 1

    def message_ends(self) -> None:
        """A stop that came meanwhile is made up for."""
        if threading.get_ident() == self._main:
            self._sending -= 1
            if self._due and not self._sending:
                self._abandon(sys._getframe())

    def from_call(self) -> NoReturn:
        """A host function says that the cell is done: called by whichever thread of the cell made the call."""
        self.by_host = True
        if threading.get_ident() == self._main:
            self._abandon(sys._getframe())
        signal.pthread_kill(self._main, STOP_SIGNAL)
        threading.Event().wait()
        raise AssertionError("a thread of a stopped cell went on")

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        if self.running:
            raise KeyboardInterrupt

    def _on_stop(self, number: int, frame: types.FrameType | None) -> None:
        if not self.running:
            return
        if self._sending:
            self._due = True
        else:
            self._abandon(frame)

    def _abandon(self, frame: types.FrameType | None) -> NoReturn:
        self.end()
        sys.setrecursionlimit(_depth() + _FRAMES)  # the frames below stay where they are
        self._due = False
        self._answer_for(frame)


def _depth() -> int:
    frame: types.FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
