"""Host calls of a run, on record: what was called and answered, cell by cell, so that a dead kernel can be rebuilt."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox import StopCell, quick

from ..history import CallRecord, cut_middle

Notify = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class Recording:
    """The calls of one cell, with what they answered."""

    calls: list[CallRecord] = field(default_factory=list)
    answers: dict[str, deque[tuple[bool, Any]]] = field(default_factory=dict)
    """By name and arguments, in order: whether it succeeded, and the answer or the error."""


class CallLog:
    """Wraps host functions: each call is timed and kept; while a cell is replayed, answers come from the record."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._numbers = itertools.count(1)
        self.recording = Recording()
        self.replaying: Recording | None = None

    def begin_cell(self) -> Recording:
        """A new cell: its calls are recorded apart."""
        self.recording = Recording()
        return self.recording

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, on record. Quick functions stay quick, and are not recorded: they only look."""
        if function.__dict__.get("_rlm_quick"):
            return quick(function)

        @functools.wraps(function)
        async def recorded(*args: Any, **kwargs: Any) -> Any:
            key = json.dumps([name, args, kwargs], sort_keys=True, default=repr)
            if self.replaying is not None:
                return _replayed(self.replaying, key, name)
            number, began, recording = next(self._numbers), time.monotonic(), self.recording
            self._notify(
                "call_started", {"id": number, "name": name, "preview": cut_middle(_preview(args, kwargs), 200)}
            )
            error: str | None = None
            try:
                answer = function(*args, **kwargs)
                if inspect.isawaitable(answer):
                    answer = await answer
                recording.answers.setdefault(key, deque()).append((True, answer))
                return answer
            except StopCell:
                raise
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
                recording.answers.setdefault(key, deque()).append((False, problem))
                raise
            finally:
                seconds = time.monotonic() - began
                recording.calls.append(CallRecord(name, seconds, error))
                self._notify("call_ended", {"id": number, "name": name, "seconds": seconds, "error": error})

        return recorded


def _replayed(recording: Recording, key: str, name: str) -> Any:
    answers = recording.answers.get(key)
    if not answers:
        raise RuntimeError(f"{name}() was not called like this the first time; its answer is not known")
    good, answer = answers[0] if len(answers) == 1 else answers.popleft()
    if good:
        return answer
    raise answer


def _preview(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*(repr(one)[:300] for one in args), *(f"{name}={one!r:.300}" for name, one in kwargs.items())])
