"""The threads of a stopped cell: ended where they can be, and otherwise kept from printing and from the host.

Python cannot end a thread that does not take part in it. An exception is raised in each; one that catches everything
gets it again where it prints or calls the host, and waits there for ever in the end. A thread that does neither can go
on until the clocks of the host end the session. Code that takes the kernel apart is not held by this.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

_TIMES = 3
_STARTERS = ("_start_joinable_thread", "_start_new_thread")
_BARE_STARTERS = ("start_new_thread", "start_new", "start_joinable_thread")
"""Those of `_thread`, whose threads `threading` does not know."""
OWN_CODE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""How the names of the files of this package begin."""

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_current, _active, _limbo = threading.current_thread, threading._active, threading._limbo  # type: ignore[attr-defined]
_Event, _ident = threading.Event, _thread.get_ident


class CellThreads:
    """Which threads belong to a cell that was stopped."""

    def __init__(self) -> None:
        self._stopped: dict[int, tuple[threading.Thread, int]] = {}
        self._bare: dict[int, int] = {}
        """Threads started by `_thread`, by their number, and how many cells had been stopped by then."""

        self.stops = 0
        """How many cells have been stopped."""

    def stop(self) -> None:
        """End all threads but the one that calls this."""
        # Without the lock of `threading`: the thread that runs cells may have been stopped while it held that.
        alive = {id(thread): thread for thread in [*_active.values(), *_limbo.values()]}
        alive.pop(id(_current()), None)
        known = self._stopped
        self._stopped = {key: known.get(key, (thread, 0)) for key, thread in alive.items()}
        self.stops += 1  # only now: see `check`
        if self.stops == 1:
            self._guard_starts()
        frames = sys._current_frames()
        for thread in alive.values():
            # One in the midst of the kernel's own code may hold a lock, or have sent half a message.
            if thread.ident is not None and not _is_in_our_code(frames.get(thread.ident)):
                _raise_in(thread.ident, SystemExit)
        for ident in list(self._bare):
            if not _is_in_our_code(frames.get(ident), begins_there=True):
                _raise_in(ident, SystemExit)

    def check(self) -> int:
        """Go no further if the thread that calls this is one of a stopped cell; return how many have been stopped.

        The number goes with what the thread sends next. It is read first: if a cell is stopped between this look and
        the sending, the number is too low, and whoever receives the message can tell.
        """
        stops = self.stops
        if self._stopped and (entry := self._stopped.get(id(thread := _current()))) is not None:
            if entry[1] >= _TIMES:
                _Event().wait()
            self._stopped[id(thread)] = (thread, entry[1] + 1)
            raise SystemExit
        if self._bare and (started := self._bare.get(_ident(), stops)) < stops:
            if started < 0:
                _Event().wait()
            self._bare[_ident()] = -1
            raise SystemExit
        return stops

    def watch_bare_starts(self) -> None:
        """Know the threads that code starts with `_thread` itself."""

        def watched(start: Callable[..., Any]) -> Callable[..., Any]:
            def start_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                stops = self.check()

                def run(*args: Any, **kwargs: Any) -> None:
                    self._bare[_ident()] = stops
                    try:
                        function(*args, **kwargs)
                    finally:
                        self._bare.pop(_ident(), None)

                return start(run, *args, **kwargs)

            return start_thread

        for name in _BARE_STARTERS:
            if (start := getattr(_thread, name, None)) is not None:
                setattr(_thread, name, watched(start))

    def _guard_starts(self) -> None:
        """Let threads of stopped cells start no others, which nobody would know."""

        def guarded(start: Callable[..., Any]) -> Callable[..., Any]:
            def start_thread(*args: Any, **kwargs: Any) -> Any:
                self.check()  # the new thread is in `_limbo` already: a stop after this look finds it there
                return start(*args, **kwargs)

            return start_thread

        for name in _STARTERS:
            if (start := getattr(threading, name, None)) is not None:
                setattr(threading, name, guarded(start))


def _is_in_our_code(frame: types.FrameType | None, *, begins_there: bool = False) -> bool:
    while frame is not None and (frame.f_back is not None or not begins_there):
        if frame.f_code.co_filename.startswith(OWN_CODE):
            return True
        frame = frame.f_back
    return False
