"""One request to a kernel, and everything until its answer: what the host does while a cell runs.

Whoever drives an exchange waits on the link and hands over what happened; `Session` does so in a loop, `AsyncSession`
from an event loop. The exchange reads the kernel's channels, host calls and raw output, keeps the clocks, and stops or
kills what does not stop. What it reads goes to a `Collector`, which trusts none of it.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import errors
from .collector import Collector
from .link import Link
from .results import CellError, CellResult
from .wire import COMM
from .zmtp import HungUp

GRACE_SECONDS = 2.0
"""How long a kernel that was told to stop a cell may take to do so before it is killed."""

SNAPSHOT_SECONDS = 1.0
"""How long a kernel may look at its variables at the end of a cell."""

Death = errors.KernelDied | errors.ProtocolViolation
_TICK_SECONDS = 0.5
_TURN_SECONDS = 0.01
"""How long one turn may take what has arrived on one channel; what is left waits for the next turn."""
_LAST_WORDS_SECONDS = 0.1
_RAW_BYTES = 1 << 16
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Gone(Exception):
    """The kernel is no more, or must not be."""


ENDS = (Gone, HungUp, errors.ProtocolViolation)
"""What an exchange raises when the kernel is to be given up; `ended` says why."""


class Exchange:
    """One request and its answers."""

    def __init__(
        self, link: Link, *, seconds: float, wall_seconds: float | None = None, session_seconds: float | None = None
    ) -> None:
        """`seconds` is for the kernel's own work, `wall_seconds` counts waiting too, `session_seconds` ends it all."""
        self._link = link
        self._iopub, self._shell = link.channels["iopub"], link.channels["shell"]
        self._limits = link.limits
        self._seconds = seconds
        self._wall_seconds = wall_seconds
        self._session_seconds = session_seconds
        self._grace = GRACE_SECONDS
        self._got = Collector(link.limits)
        self._limit: errors.LimitExceeded | None = None
        self._stop_by: float | None = None
        self._look_at = 0.0  # when the clocks must be looked at, though things keep arriving
        self._began = time.monotonic()
        self._waited_before = link.calls.waited()
        self._cpu_before = link.kernel.cpu_seconds()
        self._calls_before = link.calls.made
        self._done: Callable[[], bool] = lambda: True
        self._unsent: Exception | None = None

    # -- the two kinds of request

    def execute(self, code: str, variables: dict[str, Any] | None = None, *, json: bool = False) -> None:
        """Send a cell. With `variables`, options of a snapshot, the reply brings one along; with `json`, the value."""
        self._link.calls.cell_begins()
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        wanted: dict[str, Any] = {"json": True} if json else {}
        if variables is not None:
            wanted["variables"] = {"deadline_seconds": SNAPSHOT_SECONDS, "known": self._link.known.number, **variables}
            self._grace += SNAPSHOT_SECONDS
        metadata = {COMM: wanted} if wanted else None
        self._send("execute_request", content, (), metadata)
        # Our own kernel replies last, and what it printed is read first. Others say when all has been published.
        self._done = lambda: self._got.reply is not None and (self._link.comm is None or self._got.idle)

    def ask(self, data: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send data to the kernel's own comm."""
        self._send("comm_msg", {"comm_id": COMM, "data": data}, buffers, None)
        self._done = lambda: self._got.comm is not None

    # -- driving it

    @property
    def done(self) -> bool:
        """Whether all has arrived that was waited for."""
        return self._done()

    def wait(self) -> Death | None:
        """Drive it from here to its end. Why the kernel is gone, if it is and no limit says so."""
        try:
            while not self._done():
                self.take(self._link.look(self.pause()))
            return None
        except ENDS as end:
            return self.ended(end)

    def pause(self) -> float:
        """Look at the clocks, if it is time to; return how long nothing needs to be done unless something happens."""
        if self._unsent is not None:
            raise self._unsent
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._look(now)
        return 0.0 if self._link.behind else self._look_at - now

    def take(self, ready: dict[int, int]) -> None:
        """Take what has happened, by descriptor: one turn, which takes no longer than a few `_TURN_SECONDS`."""
        self._handle(ready)
        if self._link.cancelled:
            raise Gone

    def ended(self, end: Exception) -> Death | None:
        """Give up the kernel, and say why; waits a little for it to be gone."""
        if isinstance(end, errors.ProtocolViolation):
            self._link.kernel.kill()
            return end
        return self._after_death()

    def _send(
        self, kind: str, content: dict[str, Any], buffers: Sequence[bytes], metadata: dict[str, Any] | None
    ) -> None:
        try:
            self._got.request = self._link.channels.send("shell", kind, content, buffers, metadata)
        except ENDS as end:
            self._unsent = end

    def _handle(self, ready: dict[int, int]) -> None:
        link = self._link
        iopub, shell = self._iopub, self._shell
        if (carrier := link.carrier) is not None:
            event = ready.get(carrier.descriptor, 0)
            if event & _WRITE and not carrier.write():
                raise Gone
            if (event & _READ or carrier.behind) and not carrier.read(time.monotonic() + _TURN_SECONDS):
                raise Gone
            if event and len(ready) == 1 and not iopub.behind and not shell.behind:
                return  # a host call and nothing else: whoever waits for its answer waits for us
        if link.wake[0] in ready:
            link.calm()
            if link.comm is not None:
                link.comm.flush()
        link.flush(ready)
        if iopub.behind or ready.get(iopub.fileno(), 0) & _READ:
            self._read_iopub(_TURN_SECONDS)
        # A kernel replies last: the reply is not taken before all that was published earlier.
        if not iopub.behind and (shell.behind or ready.get(shell.fileno(), 0) & _READ):
            for message, size in link.channels.messages("shell", time.monotonic() + _TURN_SECONDS):
                self._got.shell(message, size)
        if link.kernel.errors in ready:
            self._read_raw()
        if link.kernel.pidfd in ready or (link.kernel.pidfd is None and not link.kernel.alive):
            raise Gone

    def _read_iopub(self, seconds: float) -> None:
        for message, size in self._link.channels.messages("iopub", time.monotonic() + seconds):
            if self._link.comm is None or not self._link.comm.take(message):
                self._got.iopub(message, size)

    def _read_raw(self) -> None:
        try:
            data = os.read(self._link.kernel.errors, _RAW_BYTES)
        except OSError:
            return
        if data:
            self._got.raw(data)
        else:
            self._link.ignore(self._link.kernel.errors)

    def _after_death(self) -> Death | None:
        """Take what the kernel still said, and say why it is gone."""
        link = self._link
        link.kernel.kill()
        if link.cancelled:
            return None
        # One that was ended for a limit is not waited for; of one that ended by itself somebody wants to know why.
        how = link.kernel.wait(GRACE_SECONDS if self._limit is None else 0.0)
        try:
            self._read_iopub(_LAST_WORDS_SECONDS)
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
                raise Gone
            return self._stop_by - now
        left = [_TICK_SECONDS, self._seconds - self._busy(now)]
        if self._session_seconds is not None:
            left.append(self._session_seconds - wall)
            if left[-1] <= 0:
                message = f"the session is older than {self._limits.session_seconds:g} s"
                self._limit = errors.SessionTimeLimit(message, survived=False)
                raise Gone
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
        return max(wall - waited, min(wall, self._link.kernel.cpu_seconds() - self._cpu_before)) if waited else wall

    def _stop(self, why: str) -> float:
        if self._link.has_unsent_request:  # it does not read: there is no cell to stop
            self._limit = errors.CellTimeLimit(why, survived=False)
            raise Gone
        self._limit = errors.CellTimeLimit(why, survived=True)
        self._stop_by = time.monotonic() + self._grace
        self._link.kernel.stop_cell()  # first: a call that is cancelled must not have the cell go on
        self._link.calls.stop_cell()
        return self._grace

    # -- what came of it

    def answer(self, death: Death | None) -> dict[str, Any]:
        """Return what the kernel answered to `ask`. Raises what ended the kernel, if it did."""
        if self._got.comm is None:
            raise self._limit or death or errors.SessionClosed("the session was closed")
        return self._got.comm

    def result(self, death: Death | None) -> CellResult:
        """Return what is known about the cell."""
        if self._link.cancelled:
            raise errors.SessionClosed("the session was closed while the cell ran")
        now, got = time.monotonic(), self._got
        limit = self._limit or got.limit() or self._link.calls.refused or got.output_limit()
        stopped = got.facts.get("stopped") is True
        error = got.error
        if self._link.comm is not None and error is not None and error.name == "CellStopped":
            stopped, error = True, None  # all that a kernel of another make can do is raise
        if stopped or self._limit is not None or (error is not None and error.name == "CellStopped"):
            self._link.calls.cell_stopped(got.stops)
        if self._limit is not None:
            error = ended_by(self._limit, error)
        elif death is not None:
            error = ended_by(death, error)
        value_repr = got.data.get("text/plain")
        has_value = value_repr is not None and "value" in got.facts
        return CellResult(
            outputs=tuple(got.outputs),
            value=got.facts["value"] if has_value else None,
            has_value=has_value,
            value_repr=value_repr,
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
            exited=got.facts.get("exited") is True,
            wrote=got.facts.get("wrote") is True,
            variables=got.variables(self._link.known),
        )


def ended_by(reason: errors.SandboxError, error: CellError | None = None) -> CellError:
    """Return the error of a cell that did not end by itself: the traceback it had, ending in the reason."""
    name, message = type(reason).__name__, str(reason)
    before = error.traceback.splitlines()[:-1] if error is not None else []
    return CellError(name, message, "\n".join([*before, f"{name}: {message}"]), error.line if error else None)
