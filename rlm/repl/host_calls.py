"""Host calls of a run: described for the model, and recorded, so that cells can be replayed without calls."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

import sandbox
from sandbox import StopCell
from sandbox.threads import threaded

from ..events import CallEnded, CallStarted, Emitter
from ..history import CallRecord
from ..text import cut_middle
from .replay import RecordedCall

current_call: contextvars.ContextVar[int | None] = contextvars.ContextVar("current_call", default=None)
"""The number of the host call that is being served."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where a host call comes from: the run and the iteration whose cell makes it."""

    run_id: str
    iteration: int
    emit: Emitter


call_site: contextvars.ContextVar[CallSite | None] = contextvars.ContextVar("call_site", default=None)
"""Where the host call that is being served comes from."""


_CANCELLED_S = 1.0

CANCELLED = "Cancelled: the run was stopped before there was an answer"


class NotRecorded(Exception):
    """A replayed cell made a host call that it did not make the first time. Its answer is not known."""


class CallReplay:
    """The recorded host calls of a cell that is replayed.

    `live` true: the cell had not ended, so missing calls are really made. None: the kernel is rebuilt during the run,
    so nothing is called and no events are emitted; what was refused then might be accepted by now.
    """

    def __init__(self, calls: Iterable[RecordedCall], *, live: bool | None = None) -> None:
        self._live = live
        self.silent = live is None
        self._answers: dict[tuple[str, str], deque[RecordedCall]] = {}
        for call in calls:
            if live and call.error == CANCELLED:
                continue  # it has no answer
            self._answers.setdefault((call.name, call.arguments), deque()).append(call)

    def take(self, name: str, arguments: str, *, repeatable: bool = False) -> RecordedCall | None:
        """Return the next recorded answer to a call; None if the call is to be made. Raise `NotRecorded`."""
        if repeatable and self._live is not None:
            return None
        waiting = self._answers.get((name, arguments))
        if waiting:
            return waiting.popleft()
        if self._live:
            return None
        raise NotRecorded(f"{name}() was not called like this the first time; its answer is not known")


class CallLog:
    """Wraps host functions: each call is timed, emitted and recorded; in a replayed cell the record answers."""

    def __init__(self, emit: Emitter, repeatable: Collection[str] = ()) -> None:
        """`repeatable` functions have no effect outside of the run: in a replay they are called again."""
        self._emit = emit
        self._repeatable = frozenset(repeatable)
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.iteration = 0
        self.timed: list[CallRecord] = []
        self.recorded: list[RecordedCall] = []
        self.replay: CallReplay | None = None

    def begin_cell(self, iteration: int, replay: CallReplay | None = None) -> None:
        """Start a new cell, with records of its own."""
        self.iteration, self.timed, self.recorded, self.replay = iteration, [], [], replay

    async def wait_for_cancelled(self) -> None:
        """Wait until the calls that were cancelled with the session are over, but not for a tool that goes on."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCELLED_S)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its calls recorded."""

        @functools.wraps(function)
        async def recorded(*args: Any, **kwargs: Any) -> Any:
            arguments = json.dumps([args, kwargs], sort_keys=True, ensure_ascii=False, default=repr)
            if self.replay is not None and self.replay.silent:
                return await self._answer(name, function, arguments, args, kwargs)
            number, began, timed, records = next(self._numbers), time.monotonic(), self.timed, self.recorded
            shown = cut_middle(_preview(args, kwargs), 200)
            iteration = self.iteration
            self._emit(CallStarted(self._emit.run_id, number, name, iteration, arguments, shown))
            current_call.set(number)
            call_site.set(CallSite(self._emit.run_id, iteration, self._emit))
            task = asyncio.current_task()
            if task is not None:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            answer, error, stopped = None, None, False
            try:
                answer = await self._answer(name, function, arguments, args, kwargs)
                return answer
            except StopCell:
                stopped = True
                raise
            except SystemExit as ended:  # `sys.exit` in a tool ends the call, not the run
                error = f"SystemExit: {ended.code}"
                raise RuntimeError(f"{name}() ended itself with sys.exit({ended.code!r})") from None
            except asyncio.CancelledError:
                error = CANCELLED
                raise
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
                raise
            finally:
                seconds = time.monotonic() - began
                timed.append(CallRecord(name, seconds, error))
                records.append(RecordedCall(name, arguments, answer, error, stopped))
                text = json.dumps(answer, ensure_ascii=False, default=repr) if self._emit.active and not error else None
                self._emit(CallEnded(self._emit.run_id, number, name, iteration, seconds, error, text))

        return recorded

    async def _answer(self, name: str, function: Callable[..., Any], arguments: str, args: Any, kwargs: Any) -> Any:
        past = None
        if self.replay is not None:
            past = self.replay.take(name, arguments, repeatable=name in self._repeatable)
        if past is not None:
            if past.stopped:
                raise StopCell
            if past.error is not None:
                raise _raised(past.error)
            return past.answer
        if inspect.iscoroutinefunction(function):
            answer = await function(*args, **kwargs)
        else:
            # A tool may be slow, and other runs share this event loop.
            context = contextvars.copy_context()
            answer = await threaded(lambda: context.run(function, *args, **kwargs))
            answer = await answer if inspect.isawaitable(answer) else answer
        return _plain(name, answer)


def _plain(name: str, answer: Any) -> Any:
    """Return the answer of a function as plain JSON, as it is sent and recorded: a date as text, a model as a dict."""
    try:
        return to_jsonable_python(answer)
    except (ValueError, RecursionError) as error:
        raise TypeError(f"{name}() returned something that is not JSON: {error}") from None


def _raised(error: str) -> Exception:
    """Return the exception of a recorded call: its name and message, which is all that the kernel sees."""
    name, _, message = error.partition(": ")
    kind: type[Exception] = type(name if name.isidentifier() else "HostError", (Exception,), {})
    return kind(message)


def _preview(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())])


def _shown(value: Any) -> str:
    return repr(value[:300] if isinstance(value, str | list) else value)[:300]


def plain(method: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """Return a function with the name and signature of a method, on which attributes can be set."""
    if inspect.iscoroutinefunction(method):

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await method(*args, **kwargs)

    else:

        def call(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return method(*args, **kwargs)

    doc, signature, shown = _method_described(method.__func__) if inspect.ismethod(method) else _described(method)
    call.__name__ = name or method.__name__
    call.__doc__ = doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    return sandbox.describe(call, doc, shown)


def _described(function: Callable[..., Any]) -> tuple[str | None, inspect.Signature, str | None]:
    """Return docstring and signature as a model should read them: with types in place of quoted annotations."""
    if (known := getattr(function, "__dict__", {}).get("_rlm_described")) is not None:
        return known[0], inspect.signature(function), known[1]
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, SyntaxError):
        signature = inspect.signature(function)
    documented = function.func if isinstance(function, functools.partial) else function
    return inspect.getdoc(documented), signature, str(signature)


@functools.cache
def _method_described(function: Callable[..., Any]) -> tuple[str | None, inspect.Signature, str | None]:
    """As `_described`, for a method: without `self`, and cached, because every run has its own methods."""
    doc, whole, _ = _described(function)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    return doc, signature, str(signature)
