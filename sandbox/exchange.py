"""One request to a kernel, and everything until its answer: the loop that the host runs while a cell runs.

The loop waits on the kernel's channels, its host calls, its raw output, its life and a wake-up descriptor, keeps the
clocks, and stops or kills what does not stop. It trusts nothing that it reads.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import zmq

from . import errors
from .calls import HostCalls, SocketCarrier
from .channels import Channels
from .launch import Exit
from .limits import Limits
from .results import CellError, CellResult, Output
from .scratch import exceeds
from .wire import Message

COMM = "rlm.sandbox"
GRACE_SECONDS = 2.0
"""How long a kernel that was told to stop a cell may take to do so before it is killed."""

_TICK_SECONDS = 0.5
_FILES_SECONDS = 0.1
_FLOOD_SLACK = 32 << 20
_MAX_TEXT = 200_000


class Kernel(Protocol):
    """The process behind the channels, wherever it runs."""

    pid: int | None
    pidfd: int | None
    errors: int
    scratch: str | None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""

    def stop_cell(self) -> None:
        """Make the running cell stop; its variables stay."""

    def kill(self) -> None:
        """End it now."""

    def wait(self, seconds: float) -> Exit | None:
        """How it ended, if it did."""

    def close(self) -> None:
        """End it and let go of what belongs to it."""


class CommHostCalls(Protocol):
    """Host calls that arrive as Jupyter messages."""

    def take(self, message: Message) -> bool:
        """Whether the message is a host call; if it is, it is under way."""

    def flush(self) -> None:
        """Send the answers that are ready."""


@dataclass(slots=True)
class Link:
    """What connects a session to its kernel."""

    kernel: Kernel
    channels: Channels
    calls: HostCalls
    limits: Limits
    carrier: SocketCarrier | None
    comm: CommHostCalls | None = None
    """The second carrier, where there is no socket pair."""

    review: Callable[[str], CellResult | None] | None = None
    """The policy, where the kernel has none of its own."""

    wake: tuple[int, int] = field(default_factory=os.pipe)
    cancelled: bool = False

    def __post_init__(self) -> None:
        os.set_blocking(self.wake[0], False)
        os.set_blocking(self.wake[1], False)

    def poke(self) -> None:
        """Make the loop look around."""
        try:
            os.write(self.wake[1], b"!")
        except (BlockingIOError, OSError):
            pass  # it is awake already, or gone


class _Gone(Exception):
    """The kernel is no more."""


class Exchange:
    """One request and its answers."""

    def __init__(self, link: Link, *, seconds: float | None, wall_seconds: float | None) -> None:
        self._link = link
        self._limits = link.limits
        self._seconds = seconds
        self._wall_seconds = wall_seconds
        self._id = ""
        self._outputs: list[Output] = []
        self._room = link.limits.output_bytes
        self._dropped = 0
        self._received = 0
        self._data: dict[str, Any] = {}
        self._error: CellError | None = None
        self._reply: Message | None = None
        self._comm: dict[str, Any] | None = None
        self._idle = False
        self._wants_comm = False
        self._limit: errors.LimitExceeded | None = None
        self._stop_by: float | None = None
        self._watches_writing = False
        self._began = time.monotonic()
        self._waited_before = link.calls.waited()
        self._cpu_before = self._cpu()
        self._calls_before = link.calls.made

    # -- the two kinds of request

    def execute(self, code: str, session_seconds_left: float) -> CellResult:
        """Run a cell."""
        self._session_left = session_seconds_left
        self._link.calls.refused = None
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        self._id = self._link.channels.send("shell", "execute_request", content)
        death = self._until(lambda: self._reply is not None and self._idle)
        return self._result(death)

    def ask(self, data: dict[str, Any], buffers: Sequence[bytes] = ()) -> dict[str, Any]:
        """Send data to the kernel's own comm and wait for what it answers. Raises what ended the kernel, if it did."""
        self._session_left = float("inf")
        self._wants_comm = True
        content = {"comm_id": COMM, "data": data}
        self._id = self._link.channels.send("shell", "comm_msg", content, buffers)
        death = self._until(lambda: self._comm is not None)
        if self._comm is None:
            raise self._limit or death or errors.SessionClosed("the session was closed")
        return self._comm

    # -- the loop

    def _until(self, done: Callable[[], bool]) -> errors.KernelDied | errors.ProtocolViolation | None:
        poller = self._poller()
        try:
            look_at = 0.0  # when the clocks must be looked at, though things keep arriving
            while not done():
                now = time.monotonic()
                if now >= look_at:
                    look_at = now + self._look(now)
                self._watch_carrier(poller)
                ready = dict(poller.poll(math.ceil((look_at - now) * 1000)))
                self._handle(ready)
                if self._link.cancelled:
                    raise _Gone
        except errors.ProtocolViolation as violation:
            self._link.kernel.kill()
            return violation
        except _Gone:
            return self._after_death()
        self._check_files(at_end=True)
        return None

    def _poller(self) -> zmq.Poller:
        link, poller = self._link, zmq.Poller()
        poller.register(link.channels["shell"], zmq.POLLIN)
        poller.register(link.channels["iopub"], zmq.POLLIN)
        for descriptor in (link.wake[0], link.kernel.pidfd, link.kernel.errors):
            if descriptor is not None and descriptor >= 0:
                poller.register(descriptor, zmq.POLLIN)
        if link.carrier is not None:
            poller.register(link.carrier.socket, zmq.POLLIN)
        return poller

    def _watch_carrier(self, poller: zmq.Poller) -> None:
        carrier = self._link.carrier
        if carrier is not None and carrier.wants_to_write != self._watches_writing:
            self._watches_writing = carrier.wants_to_write
            poller.modify(carrier.socket, zmq.POLLIN | (zmq.POLLOUT if self._watches_writing else 0))

    def _handle(self, ready: dict[Any, int]) -> None:
        link = self._link
        if link.wake[0] in ready:
            os.read(link.wake[0], 4096)
            if link.comm is not None:
                link.comm.flush()
        if link.carrier is not None and (event := ready.get(link.carrier.socket.fileno(), 0)):
            if event & zmq.POLLOUT:
                link.carrier.writable()
            if event & ~zmq.POLLOUT and not link.carrier.readable():
                raise _Gone
        if link.channels["iopub"] in ready:
            self._read_iopub()
        if link.channels["shell"] in ready:
            self._read_shell()
        if link.kernel.errors in ready:
            self._read_raw()
        if link.kernel.pidfd in ready or (link.kernel.pidfd is None and not link.kernel.alive):
            raise _Gone

    def _after_death(self) -> errors.KernelDied | None:
        """Take what the kernel still said, and say why it is gone."""
        link = self._link
        link.kernel.kill()
        if link.cancelled:
            return None
        end = time.monotonic() + 0.1
        while time.monotonic() < end and link.channels["iopub"].poll(20):
            self._read_iopub()
        if link.kernel.errors >= 0:
            self._read_raw()
        if self._limit is not None:
            return None
        how = link.kernel.wait(2.0)
        if how is not None and how.oom:
            self._limit = errors.MemoryLimit(f"the session was ended: {how}", survived=False)
            return None
        return errors.KernelDied(f"the kernel ended during the cell: {how or 'nobody knows how'}")

    # -- what arrives

    def _read_iopub(self) -> None:
        for _ in range(64):
            received = self._link.channels.receive("iopub")
            if received is None:
                return
            message, size = received
            self._count(size)
            if self._link.comm is not None and self._link.comm.take(message):
                continue
            if message.kind == "stream":
                self._add_output(message.content.get("name"), message.content.get("text"))
            elif message.parent_id != self._id:
                continue
            elif message.kind == "execute_result":
                data = message.content.get("data")
                self._data = data if isinstance(data, dict) else {}
            elif message.kind == "status":
                self._idle = message.content.get("execution_state") == "idle"
            elif message.kind == "comm_msg" and self._wants_comm:
                data = message.content.get("data")
                self._comm = data if isinstance(data, dict) else {"error": "no data"}

    def _read_shell(self) -> None:
        received = self._link.channels.receive("shell")
        if received is not None:
            message, size = received
            self._count(size)
            if message.kind == "execute_reply" and message.parent_id == self._id:
                self._reply = message

    def _read_raw(self) -> None:
        """What the process wrote past Python: a library in C, a child process, a crash."""
        try:
            data = os.read(self._link.kernel.errors, 65_536)
        except (BlockingIOError, OSError):
            return
        self._count(len(data))
        self._add_output("stderr", data.decode("utf-8", "replace"))

    def _count(self, size: int) -> None:
        self._received += size
        if self._received > 8 * self._limits.output_bytes + _FLOOD_SLACK:
            raise errors.ProtocolViolation(f"the kernel sent {self._received:,} bytes during one cell")

    def _add_output(self, stream: object, text: object) -> None:
        if not isinstance(text, str) or not text:
            return
        size = len(text.encode("utf-8", "replace"))
        if size > self._room:
            text = text.encode("utf-8", "replace")[: self._room].decode("utf-8", "ignore")
            self._dropped += size - self._room
            size = self._room
        self._room -= size
        name = "stderr" if stream == "stderr" else "stdout"
        if self._outputs and self._outputs[-1].stream == name and len(self._outputs[-1].text) < 65_536:
            text = self._outputs.pop().text + text
        if text:
            self._outputs.append(Output(name, _clean(text)))  # type: ignore[arg-type]

    # -- clocks

    def _look(self, now: float) -> float:
        """Stop or end what has run out of time; the seconds until the next look."""
        if self._stop_by is not None:
            if now > self._stop_by and self._reply is None:
                assert self._limit is not None
                self._limit.survived = False
                raise _Gone
            return max(0.001, self._stop_by - now)
        if now - self._began > self._session_left:
            message = f"the session is older than {self._limits.session_seconds:g} s"
            self._limit = errors.SessionTimeLimit(message, survived=False)
            raise _Gone
        left = [_TICK_SECONDS, self._session_left - (now - self._began)]
        if self._link.kernel.scratch is not None:
            self._check_files()
            left.append(_FILES_SECONDS)
        if self._seconds is not None:
            left.append(self._seconds - self._busy(now))
            if left[-1] <= 0:
                return self._stop(f"the cell ran longer than {self._seconds:g} s")
        if self._wall_seconds is not None:
            left.append(self._wall_seconds - (now - self._began))
            if left[-1] <= 0:
                return self._stop(f"the cell was still running after {self._wall_seconds:g} s, waiting included")
        return max(0.001, min(left))

    def _busy(self, now: float) -> float:
        """Seconds that count: not those spent waiting for the host, unless the processor was used meanwhile."""
        wall = now - self._began
        waited = self._link.calls.waited() - self._waited_before
        return max(wall - waited, min(wall, self._cpu() - self._cpu_before))

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

    def _check_files(self, *, at_end: bool = False) -> None:
        """Without a private root the scratch directory is an ordinary one, and somebody has to look at it."""
        scratch = self._link.kernel.scratch
        if scratch is not None and (problem := exceeds(scratch, self._limits)):
            self._limit = errors.FileLimit(problem, survived=False)
            if not at_end:
                raise _Gone
            self._link.kernel.kill()

    # -- the result

    def _result(self, death: errors.KernelDied | errors.ProtocolViolation | None) -> CellResult:
        if self._link.cancelled:
            raise errors.SessionClosed("the session was closed while the cell ran")
        now = time.monotonic()
        content = self._reply.content if self._reply is not None else {}
        facts = self._reply.metadata.get(COMM, {}) if self._reply is not None else {}
        facts = facts if isinstance(facts, dict) else {}
        dropped = self._dropped + _whole(facts.get("dropped"))
        limit = self._limit or self._limit_of(facts.get("limit"), content, dropped)
        error = _cell_error(content, facts)
        stopped = facts.get("stopped") is True
        if self._link.comm is not None and error is not None and error.name == "CellStopped":
            stopped, error = True, None  # all that a kernel of another make can do is raise
        if (
            limit is not None
            and (error is None or isinstance(limit, errors.CellTimeLimit))
            and not isinstance(limit, errors.OutputLimit)
        ):
            error = _limit_error(limit, error) if not isinstance(limit, errors.HostCallLimit) else error
        if death is not None and error is None:
            error = CellError(type(death).__name__, str(death), f"{type(death).__name__}: {death}")
        plain = self._data.get("text/plain")
        warnings = facts.get("warnings")
        return CellResult(
            outputs=tuple(self._outputs),
            value=_clean(plain) if isinstance(plain, str) else None,
            data=self._data,
            error=error,
            limit=limit,
            death=death,
            warnings=tuple(_text(one) for one in warnings[:100]) if isinstance(warnings, list) else (),
            seconds=now - self._began,
            busy_seconds=self._busy(now),
            calls=self._link.calls.made - self._calls_before,
            dropped_bytes=dropped,
            stopped=stopped,
        )

    def _limit_of(self, named: object, content: dict[str, Any], dropped: int) -> errors.LimitExceeded | None:
        limits = self._limits
        if named == "memory":
            return errors.MemoryLimit(f"the session may use {limits.memory_bytes:,} bytes of memory", survived=True)
        if named == "files":
            message = f"the scratch directory may hold {limits.file_bytes:,} bytes in {limits.file_count:,} files"
            return errors.FileLimit(message, survived=True)
        if named == "processes":
            message = f"the session may have {limits.processes} processes and threads at once"
            return errors.ProcessLimit(message, survived=True)
        if self._link.calls.refused is not None:
            return self._link.calls.refused
        if dropped:
            message = f"the cell printed more than {limits.output_bytes:,} bytes; {dropped:,} were dropped"
            return errors.OutputLimit(message, survived=True)
        return None


def _cell_error(content: dict[str, Any], facts: dict[str, Any]) -> CellError | None:
    if content.get("status") != "error":
        return None
    lines = content.get("traceback")
    traceback = "\n".join(_text(line) for line in lines[:2000]) if isinstance(lines, list) else ""
    line = facts.get("line")
    return CellError(
        _text(content.get("ename"), 200),
        _text(content.get("evalue")),
        traceback,
        line if isinstance(line, int) and not isinstance(line, bool) else None,
    )


def _limit_error(limit: errors.LimitExceeded, error: CellError | None) -> CellError:
    """A cell that was stopped: the traceback it had, ending in the reason."""
    name, message = type(limit).__name__, str(limit)
    before = error.traceback.splitlines()[:-1] if error is not None else []
    return CellError(name, message, "\n".join([*before, f"{name}: {message}"]), error.line if error else None)


def _text(value: object, cap: int = _MAX_TEXT) -> str:
    return _clean(value[:cap]) if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """Lone surrogates cannot be written anywhere; they are replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
