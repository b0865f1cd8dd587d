"""dspy's callbacks for what happens inside a run: cells as executions of an interpreter, host calls, tools.

Calls of models reach the callbacks through dspy itself.
"""

from __future__ import annotations

import functools
import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .dspy_bridge import ACTIVE_CALL_ID
from .events import CallEnded, CallStarted, CellEnded, CellStarted, Event, RunEnded, RunInterrupted

_logger = logging.getLogger("rlm")
_Key = tuple[str, str, int]
"""The run, the callback, and the number of the cell or call."""


@dataclass(frozen=True)
class RunInterpreter:
    """The sandbox of a run, as callbacks get it."""

    tools: Mapping[str, Callable[..., Any]]


class CallbackObserver:
    """An observer that calls dspy's callbacks. It is called in the context of what it is told about, so that models
    that a tool asks are its children."""

    def __init__(self, callbacks: Sequence[Any], tools: Mapping[str, Callable[..., Any]]) -> None:
        self._callbacks = tuple(callbacks)
        self._tools = tools
        self._interpreter = RunInterpreter(tools)
        self._open: dict[_Key, tuple[str, str | None]] = {}

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case CellStarted():
                inputs = {"code": event.code, "variables": {}}
                self._start("interpreter_execute", event.run_id, event.iteration, self._interpreter, inputs)
            case CellEnded():
                error = None if event.error is None else f"{event.error.name}: {event.error.message}"
                self._end("interpreter_execute", event.run_id, event.iteration, event.output, error)
            case CallStarted():
                args, kwargs = json.loads(event.arguments)
                given = {"tool_name": event.name, "args": args, "kwargs": kwargs}
                self._start("interpreter_tool_call", event.run_id, event.id, self._interpreter, given)
                if event.name in self._tools:
                    tool = _tool(event.name, self._tools[event.name])
                    named = dict(zip(tool.args or {}, args, strict=False)) | kwargs
                    self._start("tool", event.run_id, event.id, tool, {"kwargs": named})
            case CallEnded():
                answer = None if event.answer is None else json.loads(event.answer)
                for name in ("tool", "interpreter_tool_call"):
                    self._end(name, event.run_id, event.id, answer, event.error)
            case RunEnded() | RunInterrupted():
                for run_id, name, number in [key for key in reversed(self._open) if key[0] == event.run_id]:
                    self._end(name, run_id, number, None, "the run was stopped")

    def _start(self, name: str, run_id: str, number: int, instance: Any, inputs: dict[str, Any]) -> None:
        call_id = uuid.uuid4().hex
        self._call(f"on_{name}_start", call_id=call_id, instance=instance, inputs=inputs)
        self._open[run_id, name, number] = call_id, ACTIVE_CALL_ID.get()
        ACTIVE_CALL_ID.set(call_id)

    def _end(self, name: str, run_id: str, number: int, outputs: Any, error: str | None) -> None:
        call = self._open.pop((run_id, name, number), None)
        if call is None:
            return
        call_id, parent = call
        ACTIVE_CALL_ID.set(parent)
        exception = None if error is None else RuntimeError(error)
        self._call(f"on_{name}_end", call_id=call_id, outputs=None if error else outputs, exception=exception)

    def _call(self, handler: str, **arguments: Any) -> None:
        for callback in self._callbacks:
            try:
                getattr(callback, handler)(**arguments)
            except Exception:
                _logger.exception("%s of %r failed; the run goes on", handler, callback)


@functools.lru_cache(maxsize=256)
def _tool(name: str, function: Callable[..., Any]) -> Any:
    from dspy.adapters.types.tool import Tool

    try:
        return Tool(function, name=name)
    except Exception:  # a signature that has no JSON schema
        return Tool(lambda **given: function(**given), name=name, desc=function.__doc__ or "", args={})
