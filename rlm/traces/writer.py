"""The trace writer: an observer that queues events, and a thread that writes them to a database.

A run does not wait for the disk, and does not fail because of it. Events are committed in batches, at the latest 50 ms
after they happened; model replies, answers of host calls and endings within about 20 ms. A process that is killed loses
at most that. If writing fails, that is reported once and the run continues without a trace.
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
import functools

from ..events import Observer, ignore
from ..files import home

BATCH_S = 0.05
URGENT_BATCH_S = 0.02
"""Not zero: each commit takes the interpreter from the run for a moment."""

URGENT = frozenset({"run_started", "model_answered", "call_ended", "history", "run_ended"})
"""Kinds that are written sooner: replies and answers that cost money, and the progress of the run."""

MAX_QUEUED = 10_000
_MAX_BATCH = 1_000
_TIMEOUT_S = 30.0

_logger = logging.getLogger("rlm.traces")


class TraceWriter:
    """An observer that writes events to `RLM_HOME/traces`. A process needs only one; any thread may call it."""

    _accepted: int
    _written: int
    _urgent: bool
    _flushing: bool
    _closing: bool

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        on_problem: Callable[[str], None] | None = None,
        on_connect: OnConnect | None = None,
    ) -> None:
        """`on_problem` is called with the reason if tracing stops; the default logs it. `on_connect` is for tests."""
        self.folder = traces_folder(home)
        self.problem: str | None = None
        """Why tracing stopped; None while it works."""

        self.path: Path | None = None
        """The database; None before the first write."""

        self._on_problem = on_problem or _logger.warning
        self._on_connect = on_connect
        self._process = 0
        self._leaked: list[Any] = []
        self._reset()

    def __call__(self, event: Event) -> None:
        """Queue an event. Returns at once unless the queue is full because the disk is slow."""
        if self._process != os.getpid():
            self._reset()  # after a fork: the thread and the connection belong to the parent
        with self._ready:
            if self._thread is None and not self._closing:
                self._start()
            timed_out = len(self._queue) >= MAX_QUEUED and not self._ready.wait_for(self._has_room, _TIMEOUT_S)
            if not (timed_out or self._closing or self.problem is not None):
                self._queue.append(event)
                self._accepted += 1
                newly_urgent = not self._urgent and event.kind in URGENT
                self._urgent = self._urgent or newly_urgent
                if newly_urgent or len(self._queue) == 1:  # otherwise the thread would wake up for nothing
                    self._ready.notify_all()
        if timed_out:
            self._stop(f"nothing could be written for {_TIMEOUT_S:.0f} seconds")

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all queued events are written. Return False if that failed or took longer than `timeout`."""
        with self._ready:
            target, self._flushing = self._accepted, True
            self._ready.notify_all()
            done = self._ready.wait_for(lambda: self._written >= target or self.problem is not None, timeout)
            return done and self.problem is None

    def close(self) -> None:
        """Write the queued events and close the database. Later events are ignored."""
        if self._process != os.getpid():
            return
        with self._ready:
            self._closing = True
            self._ready.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_TIMEOUT_S)
        atexit.unregister(self.close)

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _reset(self) -> None:
        if self._process:
            self._leaked.append(self._recorder)  # closing it here would disturb the parent's database
        self._process = os.getpid()
        self._ready = threading.Condition(threading.Lock())
        self._queue: deque[Event] = deque()
        self._thread: threading.Thread | None = None
        self._recorder: Recorder | None = None
        self._accepted = self._written = 0
        self._urgent = self._flushing = self._closing = False

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="rlm-traces", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _has_room(self) -> bool:
        return len(self._queue) < MAX_QUEUED or self.problem is not None or self._closing

    def _run(self) -> None:
        try:
            while True:
                batch = self._next_batch()
                if not batch:
                    break
                self._write(batch)
                with self._ready:
                    self._written += len(batch)
                    self._ready.notify_all()
        except Exception as error:  # otherwise callers of `flush` would wait for a dead thread
            self._stop(f"{type(error).__name__}: {error}")
        finally:
            if self._recorder is not None:
                self._recorder.close()

    def _next_batch(self) -> list[Event]:
        """Wait for events and return the next ones to write; an empty list when the writer is closed."""
        with self._ready:
            while not self._queue and not self._closing:
                self._ready.wait()
            started = time.monotonic()
            while not self._closing and not self._flushing and len(self._queue) < _MAX_BATCH:
                left = started + (URGENT_BATCH_S if self._urgent else BATCH_S) - time.monotonic()
                if left <= 0:
                    break
                self._ready.wait(left)
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_BATCH))]
            if not self._queue:
                self._urgent = self._flushing = False
            return batch

    def _write(self, batch: list[Event]) -> None:
        if self._recorder is not None and self._recorder.full():
            self._recorder.close()
            self._recorder = None
        if self._recorder is None:
            self._recorder = Recorder(self.folder, self._on_connect)
            self.path = self._recorder.path
        self._recorder.write(batch)

    def _stop(self, reason: str) -> None:
        """Stop tracing, and report the reason once."""
        with self._ready:
            if self.problem is not None:
                return
            where = self.path or self.folder
            self.problem = (
                f"this run is no longer recorded: {where}: {reason}. "
                "The run continues; the events recorded so far can be read."
            )
            self._queue.clear()
            self._ready.notify_all()
        try:
            self._on_problem(self.problem)
        except Exception:
            _logger.exception("on_problem failed; tracing has stopped")


OFF = ("0", "off", "no", "false")
"""Values of an environment variable that turn a feature off."""

_FLUSH_TIMEOUT_S = 30.0
_writers: list[TraceWriter] = []


def default_observer() -> Observer:
    """Return the writer of `RLM_HOME`; with `RLM_TRACE=off`, an observer that records nothing."""
    if os.environ.get("RLM_TRACE", "").strip().lower() in OFF:
        return ignore
    return _writer(home())


def flush_writers(home: Path | str | None = None) -> None:
    """Wait until every event that this process has recorded in `home` can be read."""
    folder = traces_folder(home)
    for writer in _writers:
        if writer.folder == folder:
            writer.flush(_FLUSH_TIMEOUT_S)


@functools.cache
def _writer(home: Path) -> TraceWriter:
    _writers.append(TraceWriter(home))
    return _writers[-1]
