"""One request to a kernel, and everything until its answer: the loop that the host runs while a cell runs.

The loop waits on the kernel's channels, its host calls, its raw output, its life and a wake-up descriptor, keeps the
clocks, and stops or kills what does not stop. What it reads goes to a `Collector`, which trusts none of it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import errors
from .collect import COMM, Collector
from .link import Link
from .results import CellError, CellResult
from .zmtp import HungUp

GRACE_SECONDS = 2.0
"""How long a kernel that was told to stop a cell may take to do so before it is killed."""

_TICK_SECONDS = 0.5
_RAW_BYTES = 1 << 16


class _Gone(Exception):
    """The kernel is no more, or must not be."""


class Exchange:
    """One request and its answers."""

    def __init__(
        self, link: Link, *, seconds: float, wall_seconds: float | None = None, session_seconds: float | None = None
    ) -> None:
        """`seconds` is for the kernel's own work, `wall_seconds` counts waiting too, `session_seconds` ends it all."""
        self._link = link
        self._limits = link.limits
        self._seconds = seconds
        self._wall_seconds = wall_seconds
        self._session_seconds = session_seconds
        self._got = Collector(link.limits)
        self._limit: errors.LimitExceeded | None = None
        self._stop_by: float | None = None
        self._began = time.monotonic()
        self._waited_before = link.calls.waited()
        self._cpu_before = self._cpu()
        self._calls_before = link.calls.made

    def execute(self, code: str) -> CellResult:
        """Run a cell."""
        self._link.calls.refused = None
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        got = self._got
        return self._result(self._request("execute_request", content, (), lambda: got.reply is not None and got.idle))

    def ask(self, data: dict[str, Any], buffers: Sequence[bytes] = ()) -> dict[str, Any]:
        """Send data to the kernel's own comm and wait for what it answers. Raises what ended the kernel, if it did."""
        content = {"comm_id": COMM, "data": data}
        death = self._request("comm_msg", content, buffers, lambda: self._got.comm is not None)
        if self._got.comm is None:
            raise self._limit or death or errors.SessionClosed("the session was closed")
        return self._got.comm

    # -- the loop

    def _request(
        self, kind: str, content: dict[str, Any], buffers: Sequence[bytes], done: Callable[[], bool]
    ) -> errors.KernelDied | errors.ProtocolViolation | None:
        """Send, and serve until done; why the kernel is gone, if it is and no limit says so."""
        try:
            self._got.request = self._link.channels.send("shell", kind, content, buffers)
            self._serve(done)
            return None
        except errors.ProtocolViolation as violation:
            self._link.kernel.kill()
            self._link.kernel.wait(GRACE_SECONDS)
            return violation
        except (_Gone, HungUp):
            return self._after_death()

    def _serve(self, done: Callable[[], bool]) -> None:
        look_at = 0.0  # when the clocks must be looked at, though things keep arriving
        while not done():
            now = time.monotonic()
            if now >= look_at:
                look_at = now + self._look(now)
            self._handle(self._link.wait(look_at - now))
            if self._link.cancelled:
                raise _Gone

    def _handle(self, ready: dict[int, int]) -> None:
        link = self._link
        if link.wake[0] in ready:
            link.calm()
            if link.comm is not None:
                link.comm.flush()
        if link.carrier is not None and (event := ready.get(link.carrier.socket.fileno(), 0)):
            if event & select.POLLOUT:
                link.carrier.writable()
            if event & ~select.POLLOUT and not link.carrier.readable():
                raise _Gone
        if link.channels["iopub"].fileno() in ready:
            self._read_iopub()
        if link.channels["shell"].fileno() in ready:
            while (received := link.channels.receive("shell")) is not None:
                self._got.shell(*received)
        if link.kernel.errors in ready:
            self._read_raw()
        if link.kernel.pidfd in ready or (link.kernel.pidfd is None and not link.kernel.alive):
            raise _Gone

    def _read_iopub(self) -> None:
        while (received := self._link.channels.receive("iopub")) is not None:
            if self._link.comm is None or not self._link.comm.take(received[0]):
                self._got.iopub(*received)

    def _read_raw(self) -> None:
        try:
            self._got.raw(os.read(self._link.kernel.errors, _RAW_BYTES))
        except (BlockingIOError, OSError):
            pass

    def _after_death(self) -> errors.KernelDied | errors.ProtocolViolation | None:
        """Take what the kernel still said, and say why it is gone."""
        link = self._link
        link.kernel.kill()
        if link.cancelled:
            return None
        how = link.kernel.wait(GRACE_SECONDS)  # so that the session says truly whether it is alive
        try:
            self._read_iopub()
        except HungUp:
            pass
        except errors.ProtocolViolation as violation:
            return violation
        if link.kernel.errors >= 0:
            self._read_raw()
        if self._limit is not None:
            return None
        if how is not None and how.too_much:
            self._limit = errors.FileLimit(how.too_much, survived=False)
            return None
        if how is not None and how.oom:
            self._limit = errors.MemoryLimit(f"the session was ended: {how}", survived=False)
            return None
        return errors.KernelDied(f"the kernel ended during the cell: {how or 'nobody knows how'}")

    # -- clocks

    def _look(self, now: float) -> float:
        """Stop or end what has run out of time; the seconds until the next look."""
        wall = now - self._began
        if self._stop_by is not None:
            if now >= self._stop_by:
                assert self._limit is not None
                self._limit.survived = False
                raise _Gone
            return self._stop_by - now
        left = [_TICK_SECONDS, self._seconds - self._busy(now)]
        if self._session_seconds is not None:
            left.append(self._session_seconds - wall)
            if left[-1] <= 0:
                message = f"the session is older than {self._limits.session_seconds:g} s"
                self._limit = errors.SessionTimeLimit(message, survived=False)
                raise _Gone
        if left[1] <= 0:
            return self._stop(f"the cell ran longer than {self._seconds:g} s")
        if self._wall_seconds is not None:
            left.append(self._wall_seconds - wall)
            if left[-1] <= 0:
                return self._stop(f"the cell was still running after {self._wall_seconds:g} s, waiting included")
        return max(0.001, min(left))

    def _busy(self, now: float) -> float:
        """Seconds that count: not those spent waiting for the host, unless the processor was used meanwhile."""
        wall = now - self._began
        waited = self._link.calls.waited() - self._waited_before
        return max(wall - waited, min(wall, self._cpu() - self._cpu_before)) if waited else wall

    def _cpu(self) -> float:
        pid = self._link.kernel.pid
        if pid is None or not hasattr(time, "pthread_getcpuclockid"):
            return 0.0
        try:
            return time.clock_gettime((~pid << 3) | 2)  # the clock of that process, see clock_getcpuclockid(3)
        except OSError:
            return 0.0

    def _stop(self, why: str) -> float:
        self._limit = errors.CellTimeLimit(why, survived=True)
        self._stop_by = time.monotonic() + GRACE_SECONDS
        self._link.kernel.stop_cell()
        return GRACE_SECONDS

    # -- the result

    def _result(self, death: errors.KernelDied | errors.ProtocolViolation | None) -> CellResult:
        if self._link.cancelled:
            raise errors.SessionClosed("the session was closed while the cell ran")
        now, got = time.monotonic(), self._got
        limit = self._limit or got.limit() or self._link.calls.refused or got.output_limit()
        stopped = got.facts.get("stopped") is True
        error = got.error
        if self._link.comm is not None and error is not None and error.name == "CellStopped":
            stopped, error = True, None  # all that a kernel of another make can do is raise
        if self._limit is not None:
            error = _ended_by(self._limit, error)
        elif death is not None:
            error = _ended_by(death, error)
        return CellResult(
            outputs=tuple(got.outputs),
            value=got.data.get("text/plain"),
            data=got.data,
            error=error,
            limit=limit,
            death=death,
            warnings=got.warnings,
            seconds=now - self._began,
            busy_seconds=self._busy(now),
            calls=self._link.calls.made - self._calls_before,
            dropped_bytes=got.dropped,
            stopped=stopped,
        )


def _ended_by(reason: errors.SandboxError, error: CellError | None) -> CellError:
    """A cell that did not end by itself: the traceback it had, ending in the reason."""
    name, message = type(reason).__name__, str(reason)
    before = error.traceback.splitlines()[:-1] if error is not None else []
    return CellError(name, message, "\n".join([*before, f"{name}: {message}"]), error.line if error else None)
