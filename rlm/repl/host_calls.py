"""Host calls of a run, on record: what was called and answered, so that cells can run again without asking anyone."""

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
from typing import Any

from pydantic_core import to_jsonable_python

from sandbox import StopCell
from sandbox.threads import threaded

from ..events import CallEnded, CallStarted, Emitter
from ..history import CallRecord
from ..text import cut_middle
from .replay import RecordedCall

current_call: contextvars.ContextVar[int | None] = contextvars.ContextVar("current_call", default=None)
"""The number of the host call on whose behalf something is done."""


CANCELLED = "Cancelled: the run was stopped before there was an answer"


class NotRecorded(Exception):
    """A cell that runs again made a call that it had not made the first time. Its answer is not known."""


class CallReplay:
    """The recorded calls of a cell that runs again.

    `live`: it had not ended, so what is missing is really called. None: the run has gone on since, so nothing is called
    at all, and nothing told. What was refused then might be accepted by now.
    """

    def __init__(self, calls: Iterable[RecordedCall], *, live: bool | None = None) -> None:
        self._live = live
        self.told = live is None
        self._answers: dict[tuple[str, str], deque[RecordedCall]] = {}
        for call in calls:
            if live and call.error == CANCELLED:
                continue  # it was never answered
            self._answers.setdefault((call.name, call.arguments), deque()).append(call)

    def take(self, name: str, arguments: str, *, repeatable: bool = False) -> RecordedCall | None:
        """The next answer to this call; None where the call is to be made. Raises `NotRecorded`."""
        if repeatable and self._live is not None:
            return None
        waiting = self._answers.get((name, arguments))
        if waiting:
            return waiting.popleft()
        if self._live:
            return None
        raise NotRecorded(f"{name}() was not called like this the first time; its answer is not known")


class CallLog:
    """Wraps host functions: each call is timed, told and kept; in a cell that runs again the record answers."""

    def __init__(self, emit: Emitter, repeatable: Collection[str] = ()) -> None:
        """`repeatable` are functions that ask nobody and change nothing outside: they are simply called again."""
        self._emit = emit
        self._repeatable = frozenset(repeatable)
        self._numbers = itertools.count(1)
        self.iteration = 0
        self.timed: list[CallRecord] = []
        self.recorded: list[RecordedCall] = []
        self.replay: CallReplay | None = None

    def begin_cell(self, iteration: int, replay: CallReplay | None = None) -> None:
        """A new cell: its calls are kept apart from those before."""
        self.iteration, self.timed, self.recorded, self.replay = iteration, [], [], replay

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, on record."""

        @functools.wraps(function)
        async def recorded(*args: Any, **kwargs: Any) -> Any:
            arguments = json.dumps([args, kwargs], sort_keys=True, ensure_ascii=False, default=repr)
            if self.replay is not None and self.replay.told:
                return await self._answer(name, function, arguments, args, kwargs)
            number, began, timed, kept = next(self._numbers), time.monotonic(), self.timed, self.recorded
            shown = cut_middle(_preview(args, kwargs), 200)
            iteration = self.iteration
            self._emit(CallStarted(self._emit.run_id, number, name, iteration, arguments, shown))
            current_call.set(number)
            answer, error = None, None
            try:
                answer = await self._answer(name, function, arguments, args, kwargs)
                return answer
            except StopCell:
                raise
            except SystemExit as ended:  # a tool ends itself, not whoever called it
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
                kept.append(RecordedCall(name, arguments, answer, error))
                text = json.dumps(answer, ensure_ascii=False, default=repr) if self._emit.active and not error else None
                self._emit(CallEnded(self._emit.run_id, number, name, iteration, seconds, error, text))

        return recorded

    async def _answer(self, name: str, function: Callable[..., Any], arguments: str, args: Any, kwargs: Any) -> Any:
        past = None
        if self.replay is not None:
            past = self.replay.take(name, arguments, repeatable=name in self._repeatable)
        if past is not None:
            if past.error is not None:
                raise _raised(past.error)
            return past.answer
        if inspect.iscoroutinefunction(function):
            answer = await function(*args, **kwargs)
        else:
            # A tool may take its time, and other runs go on in this event loop.
            context = contextvars.copy_context()
            answer = await threaded(lambda: context.run(function, *args, **kwargs))
            answer = await answer if inspect.isawaitable(answer) else answer
        return _plain(name, answer)


def _plain(name: str, answer: Any) -> Any:
    """What a function returned, as JSON carries it: a date as text, a model as a dict. So it is sent, and on record."""
    try:
        return to_jsonable_python(answer)
    except (ValueError, RecursionError) as error:
        raise TypeError(f"{name}() returned something that is not JSON: {error}") from None


def _raised(error: str) -> Exception:
    """The exception of a recorded call: the same name and message, which is all that the kernel sees of one."""
    name, _, message = error.partition(": ")
    kind: type[Exception] = type(name if name.isidentifier() else "HostError", (Exception,), {})
    return kind(message)


def _preview(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(_shown, args), *(f"{name}={_shown(one)}" for name, one in kwargs.items())])


def _shown(value: Any) -> str:
    return repr(value[:300] if isinstance(value, str | list) else value)[:300]
