"""The writer: an observer that puts events on a queue; a thread of its own writes them down.

A run never waits for a disk, and never breaks because of one. Events are committed together, at the latest 50 ms after
they came; answers that cost money, and the end of a run, within about 20 ms. A process that is killed loses at most
that. If nothing can be written any more, that is said once and the run goes on without a trace.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .paths import traces_folder
from .recorder import OnConnect, Recorder

if TYPE_CHECKING:
    from ..events import Event

GATHER_S = 0.05
SOON_S = 0.02
"""Not at once: each commit takes the interpreter from the run for a moment."""

SOON = frozenset({"run_started", "model_answered", "call_ended", "history", "run_ended"})
"""Kinds that are written soon: what was paid for, and what says how far a run has come."""

MAX_QUEUED = 10_000
_BATCH = 1_000
_PATIENCE_S = 30.0

_logger = logging.getLogger("rlm.traces")


class TraceWriter:
    """Writes the events it is called with to `RLM_HOME/traces`. One is enough for a process; any thread may call it."""

    _taken: int
    _written: int
    _soon: bool
    _hurry: bool
    _closing: bool

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        on_problem: Callable[[str], None] | None = None,
        on_connect: OnConnect | None = None,
    ) -> None:
        """`on_problem` is told, once, why tracing stopped; without it that is logged. `on_connect` is for tests."""
        self.folder = traces_folder(home)
        self.problem: str | None = None
        """Why nothing is written any more; None while all is well."""

        self.path: Path | None = None
        """The database, once something was written."""

        self._on_problem = on_problem or _logger.warning
        self._on_connect = on_connect
        self._process = 0
        self._leaked: list[Any] = []
        self._begin()

    def __call__(self, event: Event) -> None:
        """Take an event. Returns at once, unless the disk is so slow that the queue is full."""
        if self._process != os.getpid():
            self._begin()  # a fork: the thread and the connection belong to the parent
        with self._ready:
            if self._thread is None and not self._closing:
                self._start()
            stuck = len(self._queue) >= MAX_QUEUED and not self._ready.wait_for(self._room, _PATIENCE_S)
            if not (stuck or self._closing or self.problem is not None):
                self._queue.append(event)
                self._taken += 1
                sooner = not self._soon and event.kind in SOON
                self._soon = self._soon or sooner
                if sooner or len(self._queue) == 1:  # else the thread would wake to find that it may sleep on
                    self._ready.notify_all()
        if stuck:
            self._give_up(f"nothing could be written for {_PATIENCE_S:.0f} seconds")

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything taken so far is written; False if that failed or took too long."""
        with self._ready:
            wanted, self._hurry = self._taken, True
            self._ready.notify_all()
            done = self._ready.wait_for(lambda: self._written >= wanted or self.problem is not None, timeout)
            return done and self.problem is None

    def close(self) -> None:
        """Write what is left and close the file. Events that come later are ignored."""
        if self._process != os.getpid():
            return
        with self._ready:
            self._closing = True
            self._ready.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE_S)
        atexit.unregister(self.close)

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self) -> None:
        if self._process:
            self._leaked.append(self._recorder)  # closing it here would disturb the parent's file
        self._process = os.getpid()
        self._ready = threading.Condition(threading.Lock())
        self._queue: deque[Event] = deque()
        self._thread: threading.Thread | None = None
        self._recorder: Recorder | None = None
        self._taken = self._written = 0
        self._soon = self._hurry = self._closing = False

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="rlm-traces", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _room(self) -> bool:
        return len(self._queue) < MAX_QUEUED or self.problem is not None or self._closing

    def _work(self) -> None:
        try:
            while True:
                batch = self._gather()
                if not batch:
                    break
                self._write(batch)
                with self._ready:
                    self._written += len(batch)
                    self._ready.notify_all()
        except Exception as error:  # the thread must not end in silence: callers would wait for it
            self._give_up(f"{type(error).__name__}: {error}")
        finally:
            if self._recorder is not None:
                self._recorder.close()

    def _gather(self) -> list[Event]:
        """The events to write next; none when there will be no more."""
        with self._ready:
            while not self._queue and not self._closing:
                self._ready.wait()
            began = time.monotonic()
            while not self._closing and not self._hurry and len(self._queue) < _BATCH:
                left = began + (SOON_S if self._soon else GATHER_S) - time.monotonic()
                if left <= 0:
                    break
                self._ready.wait(left)
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
            if not self._queue:
                self._soon = self._hurry = False
            return batch

    def _write(self, batch: list[Event]) -> None:
        if self._recorder is not None and self._recorder.full():
            self._recorder.close()
            self._recorder = None
        if self._recorder is None:
            self._recorder = Recorder(self.folder, self._on_connect)
            self.path = self._recorder.path
        self._recorder.write(batch)

    def _give_up(self, why: str) -> None:
        """Stop, and say so once."""
        with self._ready:
            if self.problem is not None:
                return
            where = self.path or self.folder
            self.problem = (
                f"this run is no longer recorded: {where}: {why}. The run goes on; what was recorded stays readable."
            )
            self._queue.clear()
            self._ready.notify_all()
        try:
            self._on_problem(self.problem)
        except Exception:
            _logger.exception("could not say that tracing stopped")
