"""The host's end of host calls: requests are counted, capped, executed in parallel, and answered.

The functions belong to the caller and are trusted; the requests are not. Arguments and results are JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from . import frames
from .errors import HostCallLimit, ProtocolViolation
from .json_cost import SMALL_BYTES, WORST, decoded_bytes
from .limits import Limits
from .tagged import may_be_tagged, plain

MEMORY_FACTOR = 8
"""How much memory the arguments of a call may take for each of the `call_bytes` that they may be long."""

_MAX_ID = 1 << 63
_MAX_REFUSALS = 100_000
_MIN_COST = 1 << 10
_STOPPED = "the cell that made the call was stopped"


class StopCell(BaseException):
    """Raised by a host function: the cell that called it ends there and then. No code of the cell runs after it."""


F = TypeVar("F", bound=Callable[..., Any])


def with_types(function: F) -> F:
    """Mark a host function that wants to know what arguments were that JSON does not know: see `tagged.py`."""
    function.__dict__["_rlm_types"] = True
    return function


def quick(function: F) -> F:
    """Mark a host function that answers at once: the thread that watches the cell calls it itself.

    For an `AsyncSession` that is the thread of the event loop. It saves handing it over, and keeps everything else
    waiting until it returns: no model, no disk, no lock.
    """
    function.__dict__["_rlm_quick"] = True
    return function


def describe(function: F, doc: str | None, signature: str | None) -> F:
    """Say what code reads about a host function, where its docstring and signature are not what they should read."""
    function.__dict__["_rlm_described"] = (doc, signature)
    return function


def described(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """Return the docstring and the signature of a host function, as code that may call it reads them."""
    known: tuple[str | None, str | None] | None = getattr(function, "__dict__", {}).get("_rlm_described")
    if known is not None:
        return known
    try:
        return inspect.getdoc(function), str(inspect.signature(function))
    except (TypeError, ValueError):
        return inspect.getdoc(function), None


class AnswerSink(Protocol):
    """Where answers are sent."""

    def answer(self, frame: bytes) -> None:
        """Send one answer, as a frame; called from any thread."""


@dataclass(slots=True)
class _Call:
    number: Any
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    cost: int
    """The memory that it was estimated to take."""

    stops: int = 0
    """How many cells had been stopped when the thread that made it was last seen to be of none of them."""

    function: Callable[..., Any] | None = None
    """What it calls, once it was accepted."""

    dropped: bool = False
    """The cell that made it was stopped: nobody waits for it any more."""


class HostCalls:
    """The functions that one session offers, and the calls that are under way."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        limits: Limits,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self._quick: frozenset[str] = frozenset()
        self.replace(functions)
        self._limits = limits
        self._loop = loop
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._waiting: deque[tuple[_Call, AnswerSink]] = deque()
        self._running: dict[Future[Any] | asyncio.Task[Any], _Call] = {}
        self._in_flight = 0
        self._waiting_cost = 0
        self._refusals = 0
        self._refused_cost = 0
        self._waited = 0.0
        self._waits_since = 0.0
        self._closed = False
        self._stops = 0
        self.stopping = False
        """A cell has been asked to stop. Until it has, calls are refused, and read all the same: a thread of the kernel
        that writes cannot stop before it has written."""
        self.made = 0
        self.refused: HostCallLimit | None = None

    def replace(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Offer these functions, and no others. Calls that were accepted are still made."""
        self._quick = frozenset(name for name, function in functions.items() if getattr(function, "_rlm_quick", False))
        self.functions = dict(functions)

    @property
    def in_flight(self) -> int:
        """Calls that have not been answered."""
        return self._in_flight

    def waited(self) -> float:
        """Seconds, so far, during which at least one call was under way."""
        with self._lock:
            return self._waited + (time.monotonic() - self._waits_since if self._in_flight else 0.0)

    def describe(self) -> list[dict[str, Any]]:
        """Return what the kernel needs to know to offer the functions."""
        entries = ((name, *described(function)) for name, function in self.functions.items())
        return [{"name": name, "doc": doc, "signature": signature} for name, doc, signature in entries]

    @property
    def congested(self) -> bool:
        """Whether so much waits to be worked on that nothing more should be read for now."""
        return self._waiting_cost > 4 * self._limits.call_bytes

    def receive(self, data: bytes, sink: AnswerSink) -> None:
        """Take a request as JSON text. Raises `ProtocolViolation` when no honest kernel could have sent it."""
        cost = len(data) * WORST if len(data) <= SMALL_BYTES else decoded_bytes(data)
        if cost > MEMORY_FACTOR * self._limits.call_bytes:
            raise ProtocolViolation(f"a host call whose arguments would take {cost:,} bytes of memory")
        body = frames.decode(data)
        if may_be_tagged(data) and not self._wants_types(body.get("name")):
            body = frames.decode(data, object_hook=plain)
        self.request(body, cost, sink)

    def request(self, body: dict[str, Any], cost: int, sink: AnswerSink) -> None:
        """Take a decoded request, of so much memory by estimate. Its values are plain, or wanted with their types."""
        call = _checked(body, max(cost, _MIN_COST))
        if (refusal := self._admit(call)) is not None:
            sink.answer(frames.encode(refusal))
        elif call.name in self._quick:
            sink.answer(self._called_here(call))
        else:
            with self._lock:
                self._waiting_cost += call.cost
                if self._in_flight == 0:
                    self._waits_since = time.monotonic()
                self._in_flight += 1
                self._waiting.append((call, sink))
            self._start_some()

    def _admit(self, call: _Call) -> dict[str, Any] | None:
        """Count the call, or say why it is not made."""
        with self._lock:
            refusal = self._refusal(call)
            if refusal is None:
                self.made += 1
                call.function = self.functions[call.name]
                return None
            self._refusals += 1
            self._refused_cost += call.cost if call.cost > SMALL_BYTES * WORST else _MIN_COST
            if self._refusals > _MAX_REFUSALS or self._refused_cost > self._most_refused:
                raise ProtocolViolation(f"{self._refusals:,} host calls that had to be refused are too many")
            return refusal

    @property
    def _most_refused(self) -> int:
        return max(_MAX_REFUSALS * _MIN_COST, 4 * MEMORY_FACTOR * self._limits.call_bytes)

    def _wants_types(self, name: object) -> bool:
        return isinstance(name, str) and getattr(self.functions.get(name), "_rlm_types", False)

    def _refusal(self, call: _Call) -> dict[str, Any] | None:
        if call.name not in self.functions:
            return _error(call.number, "NameError", f"the host has no function {call.name[:100]!r}")
        if self._closed:
            return _error(call.number, "HostCallRefused", "the session is closed")
        if self.stopping or call.stops < self._stops:
            return _error(call.number, "HostCallRefused", _STOPPED)
        if self.made < self._limits.host_calls:
            return None
        message = f"all {self._limits.host_calls:,} host calls of this session have been made"
        self.refused = HostCallLimit(message, survived=True)
        return _error(call.number, "HostCallRefused", message)

    def close(self) -> None:
        """Cancel what is under way; what cannot be cancelled is not waited for, and its result is dropped."""
        with self._lock:
            self._closed = True
        self.cancel()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self._own_loop.stop)

    def cell_begins(self) -> None:
        """What was refused, and what was to stop, was another cell's affair."""
        self.refused = None
        self.stopping = False

    def stop_cell(self) -> None:
        """Cancel what is under way, and make no calls until `cell_stopped`: the running cell is to stop."""
        with self._lock:
            self.stopping = True
        self.cancel()

    def cell_stopped(self, stops: int) -> None:
        """Cancel what is under way; from now on make only calls of threads that outlived `stops` stops.

        The number is the kernel's own, and can do no more than have its calls refused.
        """
        with self._lock:
            self._stops = max(self._stops, stops)
            self.stopping = False
        self.cancel()

    def cancel(self) -> None:
        """Cancel what is under way or waits its turn. What of it has not begun by now never does."""
        with self._lock:
            waiting = list(self._waiting)
            for call, _ in waiting:
                self._waiting_cost -= call.cost
                self._land(call)
            self._waiting.clear()
            running = list(self._running)
            for call in self._running.values():
                self._land(call)
        for future in running:
            if isinstance(future, asyncio.Task):
                with contextlib.suppress(RuntimeError):  # its loop is closed, and it is gone
                    future.get_loop().call_soon_threadsafe(future.cancel)
            else:
                future.cancel()
        for call, sink in waiting:  # its thread waits for an answer before it can end
            sink.answer(frames.encode(_error(call.number, "HostCallRefused", _STOPPED)))

    def _land(self, call: _Call) -> None:
        """Count a call as in flight no longer: it was answered, or nobody waits for it."""
        if not call.dropped:
            call.dropped = True
            self._in_flight -= 1
            if self._in_flight == 0:
                self._waited += time.monotonic() - self._waits_since

    def _start_some(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._waiting or len(self._running) >= self._limits.parallel_calls:
                    return
                call, sink = self._waiting.popleft()
                future = self._submit(call)
                self._running[future] = call
            future.add_done_callback(functools.partial(self._done, call=call, sink=sink))
            if not self._waiting:
                return

    def _submit(self, call: _Call) -> Future[Any] | asyncio.Task[Any]:
        function = call.function
        assert function is not None
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            loop = self._loop or self._private_loop()
            if asyncio._get_running_loop() is loop:  # the loop itself watches the cell
                return loop.create_task(_awaited(function, call))
            return asyncio.run_coroutine_threadsafe(_awaited(function, call), loop)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._limits.parallel_calls, thread_name_prefix="rlm-host-call")
        # The function finds what whoever runs the cell has set for itself, as it would if it were called directly.
        return self._executor.submit(contextvars.copy_context().run, self._called, function, call)

    def _private_loop(self) -> asyncio.AbstractEventLoop:
        if self._own_loop is None:
            self._own_loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(self._own_loop,), daemon=True, name="rlm-host-loop").start()
        return self._own_loop

    def _called(self, function: Callable[..., Any], call: _Call) -> Any:
        with self._lock:
            if call.dropped:  # since the executor's thread took it
                raise CancelledError
        return function(*call.args, **call.kwargs)

    def _called_here(self, call: _Call) -> bytes:
        """Return the answer of a quick function, which this thread calls itself."""
        try:
            return self._framed(call, self.functions[call.name](*call.args, **call.kwargs))
        except StopCell:
            return frames.encode({"id": call.number, "stop": True})
        except (Exception, SystemExit) as error:
            return frames.encode(_error(call.number, type(error).__name__, str(error)))

    def _done(self, future: Future[Any] | asyncio.Task[Any], call: _Call, sink: AnswerSink) -> None:
        answer = self._answer(future, call)
        with self._lock:
            self._running.pop(future, None)
            self._waiting_cost -= call.cost
            self._land(call)
            closed = self._closed
        if not closed:
            sink.answer(answer)
            if self._waiting:
                self._start_some()

    def _answer(self, future: Future[Any] | asyncio.Task[Any], call: _Call) -> bytes:
        if future.cancelled():
            return frames.encode(_error(call.number, "HostError", f"{call.name}() was cancelled"))
        error = future.exception()
        if error is None and not isinstance(value := future.result(), _Stopped):
            return self._framed(call, value)
        if error is None or isinstance(error, StopCell):
            return frames.encode({"id": call.number, "stop": True})
        return frames.encode(_error(call.number, type(error).__name__, str(error)))

    def _framed(self, call: _Call, value: Any) -> bytes:
        """Return what a function returned, as a frame; or what is wrong with it."""
        try:
            frame = frames.encode({"id": call.number, "value": value})
        except (TypeError, ValueError, RecursionError) as problem:
            message = f"{call.name}() returned something that is not JSON: {problem}"
            return frames.encode(_error(call.number, "HostError", message))
        if len(frame) > self._limits.call_bytes:
            message = f"{call.name}() returned {len(frame):,} bytes; at most {self._limits.call_bytes:,} fit"
            return frames.encode(_error(call.number, "HostCallRefused", message))
        return frame


def _checked(body: dict[str, Any], cost: int) -> _Call:
    take = body.get
    number, name, args, kwargs = take("id"), take("name"), take("args"), take("kwargs")
    if not (isinstance(name, str) and isinstance(args, list) and isinstance(kwargs, dict)):
        raise ProtocolViolation("a host call without a name, arguments or keywords")
    if not (type(number) is int and -_MAX_ID < number < _MAX_ID) and not (type(number) is str and len(number) <= 100):
        raise ProtocolViolation("a host call without an id")
    stops = take("stops", 0)
    if not isinstance(stops, int):
        raise ProtocolViolation("a host call that does not say of which cell it is")
    return _Call(number, name, args, kwargs, cost, stops)


def _error(number: Any, name: str, message: str) -> dict[str, Any]:
    return {"id": number, "error": {"name": name, "message": message[:10_000]}}


async def _awaited(function: Callable[..., Any], call: _Call) -> Any:
    if call.dropped:  # since it was scheduled
        raise asyncio.CancelledError
    try:
        return await function(*call.args, **call.kwargs)
    # asyncio lets a BaseException tear its loop down; an ordinary value or exception does not.
    except StopCell:
        return _Stopped()
    except SystemExit as ended:
        raise RuntimeError(f"{call.name}() ended itself with sys.exit({ended.code!r})") from None


class _Stopped:
    """Stands for a `StopCell` that an asynchronous function raised."""


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_tasks())
    finally:
        loop.close()


async def _cancel_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
