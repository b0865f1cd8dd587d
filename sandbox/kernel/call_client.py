"""The kernel's end of host calls: stubs for the functions of the host.

Any thread may call, many at once. There is no reader thread: one of the waiting callers reads for all of them.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from .. import frames
from ..json_cost import SMALL_BYTES, decoded_bytes, is_deeper
from .cell_threads import CellThreads
from .interrupts import Interrupts
from .json_encoding import tagged

_encode = frames.json_encoder(tagged)

_LOOK_AROUND = struct.pack("ll", 0, 50_000)
"""A `timeval`: how long a caller waits before it looks whether its cell is to be stopped."""

_MAX_ANSWER = 1 << 30  # the host caps what it sends; this only keeps the length field sane
_MAX_DEPTH = 200


class HostError(Exception):
    """The host function failed, in a way that has no exception of its own in Python."""


class HostCallRefused(HostError):
    """The host did not make the call: a limit was reached, or the arguments were not acceptable."""


# A host exception arrives as the builtin of the same name, so that ordinary `except ValueError` works.
_NAMED: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ValueError, TypeError, KeyError, IndexError, LookupError, RuntimeError, TimeoutError, ConnectionError,
        PermissionError, FileNotFoundError, OSError, ArithmeticError, ZeroDivisionError, NotImplementedError,
    )
} | {"HostError": HostError, "HostCallRefused": HostCallRefused}  # fmt: skip


class _Pending:
    """One call that waits for its answer."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None


class CallClient:
    """The kernel's end of the call socket."""

    def __init__(self, sock: socket.socket, interrupts: Interrupts, threads: CellThreads) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LOOK_AROUND)
        self.socket = sock
        self._interrupts = interrupts
        self._shield = interrupts.shield
        self._threads = threads
        self._reader = frames.Reader(_MAX_ANSWER)
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._arrived = threading.Condition()
        self.descriptors: list[int] = []
        self.max_bytes = _MAX_ANSWER
        self.max_memory = _MAX_ANSWER

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the host and wait for what it returns."""
        stops = self._threads.check()
        number = next(self._numbers)
        body = {"id": number, "name": name, "args": args, "kwargs": kwargs}
        if stops:
            body["stops"] = stops
        try:
            data = frames.encode(body, _encode)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"{name}(): arguments must be JSON values (str, int, float, bool, None, list, dict): {error}"
            ) from None
        if len(data) > self.max_bytes:
            raise HostCallRefused(f"{name}(): {len(data):,} bytes of arguments; at most {self.max_bytes:,} fit")
        if is_deeper(data, _MAX_DEPTH):
            raise HostCallRefused(f"{name}(): arguments nested more than {_MAX_DEPTH} deep; pass them flat, or as text")
        if len(data) > SMALL_BYTES and decoded_bytes(data) > self.max_memory:
            raise HostCallRefused(
                f"{name}(): too many values in the arguments: they would take more than {self.max_memory:,} bytes of"
                " memory; pass fewer at once, or one text"
            )
        pending = self._pending[number] = _Pending()
        # A cell that is stopped in here leaves no lock behind, no half of a frame, and no bytes that nobody took.
        with self._shield:
            with self._writing:
                self.socket.sendall(data)
            while pending.answer is None and not self._interrupts.is_due:
                self._wait(pending)
            del self._pending[number]
        self._threads.check()
        return self._result(pending.answer or {})

    def pump(self) -> bool:
        """Read what has arrived, if nobody else does or just did; False when the host is gone."""
        if not self._reading.acquire(blocking=False):
            return True
        try:
            return self._read(socket.MSG_DONTWAIT)
        finally:
            self._reading.release()

    def take_descriptors(self, count: int) -> list[int]:
        """Descriptors that the host sent beside a frame."""
        with self._reading:
            while len(self.descriptors) < count:
                if not self._read():
                    raise ConnectionError("the host closed the call socket")
        taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return taken

    def _wait(self, pending: _Pending) -> None:
        if self._reading.acquire(blocking=False):
            try:
                while pending.answer is None and not self._interrupts.is_due:
                    if not self._read():
                        raise ConnectionError("the host closed the call socket")
            finally:
                self._reading.release()
                self._notify()  # somebody else reads next
        else:
            with self._arrived:
                if pending.answer is None:
                    # The timeout covers a reader that stopped between our test of the lock and this wait.
                    self._arrived.wait(0.05)

    def _read(self, flags: int = 0) -> bool:
        try:
            alive = frames.receive_with_descriptors(self.socket, self._reader, self.descriptors, flags)
        except BlockingIOError:
            return True
        for answer in self._reader.frames():
            pending = self._pending.get(answer.get("id", 0))
            if pending is not None:
                pending.answer = answer
        self._notify()
        return alive

    def _notify(self) -> None:
        if len(self._pending) > 1:  # others than the one who reads
            with self._arrived:
                self._arrived.notify_all()

    def _result(self, answer: dict[str, Any]) -> Any:
        if answer.get("stop"):
            self._interrupts.from_call()
        error = answer.get("error")
        if error is not None:
            kind = _NAMED.get(error["name"])
            if kind is None:
                kind = _NAMED[error["name"]] = type(str(error["name"]), (HostError,), {"__module__": "builtins"})
            raise kind(error["message"])
        return answer.get("value")


def stub(calls: CallClient, name: str, doc: str | None, signature: str | None) -> Callable[..., Any]:
    """Return a function that looks like the host's."""

    def call_host(*args: Any, **kwargs: Any) -> Any:
        return calls.call(name, args, kwargs)

    call_host.__name__ = call_host.__qualname__ = name
    call_host.__module__ = "host"
    call_host.__doc__ = doc
    if signature:
        call_host.__text_signature__ = signature  # type: ignore[attr-defined]
    return call_host
