"""One cell of code: compile it, run it, say what happened in the cell's own lines."""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import errno
import inspect
import linecache
import sys
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PREFIX = "<cell "

_MAX_MESSAGE = 20_000
_MAX_TRACEBACK = 60_000
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Refused(Exception):
    """The policy does not let this cell run; the message says why and what to write instead."""


@dataclass(slots=True)
class Failure:
    """Why a cell failed."""

    name: str
    message: str
    traceback: str
    line: int | None = None
    limit: str | None = None
    """Which limit the exception speaks of: memory, files or processes."""


class Cells:
    """Runs cells one after another in one namespace."""

    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = builtins
        self.namespace: dict[str, Any] = self.module.__dict__
        self.own_names = frozenset(self.namespace)
        self.review: Callable[[ast.Module, str], None] | None = None
        self.count = 0
        self._runner: asyncio.Runner | None = None

    def run(self, source: str) -> Any:
        """Run a cell; what comes back is the value of its last expression. Raises what the cell raises."""
        self.count += 1
        name = f"{PREFIX}{self.count}>"
        lines = f"{source}\n".splitlines(keepends=True)  # tracebacks place their marks as if every line ended
        linecache.cache[name] = (len(source), None, lines, name)
        tree = ast.parse(source, name)
        if self.review is not None:
            self.review(tree, source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        sys.modules["__main__"] = self.module
        self._execute(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True))
        if not isinstance(last, ast.Expr):
            return None
        expression = ast.Expression(last.value)
        return self._execute(compile(expression, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True))

    def forget_loop(self) -> None:
        """The running event loop belongs to a cell that was stopped: the next cell gets a new one."""
        asyncio._set_running_loop(None)
        self._runner = None

    def _execute(self, code: types.CodeType) -> Any:
        if not code.co_flags & inspect.CO_COROUTINE:
            return eval(code, self.namespace)
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(eval(code, self.namespace))


def failure(error: BaseException) -> Failure:
    """Describe an exception that a cell raised."""
    if isinstance(error, Refused):
        return Failure("Refused", str(error), f"Refused: {error}")
    rendered = traceback.TracebackException.from_exception(error, capture_locals=False, compact=True)
    line = _keep_own_lines(rendered)
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(PREFIX):
        line = error.lineno
    text = "".join(rendered.format(chain=True))
    name = type(error).__name__
    return Failure(
        _cut(name, 200), _cut(_message(rendered), _MAX_MESSAGE), _cut(text, _MAX_TRACEBACK), line, _limit(error)
    )


def interrupted(frame: types.FrameType | None, name: str, message: str) -> Failure:
    """Describe a cell that was stopped from outside, at the line where it was."""
    stack = traceback.StackSummary.extract(
        ((f, f.f_lineno) for f in _outermost_first(frame) if f.f_code.co_filename.startswith(PREFIX)),
        limit=64,
    )
    text = "".join(["Traceback (most recent call last):\n", *stack.format(), f"{name}: {message}\n"])
    return Failure(name, message, text, stack[-1].lineno if stack else None)


def _outermost_first(frame: types.FrameType | None) -> list[types.FrameType]:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _keep_own_lines(rendered: traceback.TracebackException) -> int | None:
    """Drop every frame that is not a cell's, here and in the causes; the line where the cell left its own code."""
    seen: set[int] = set()
    todo = [rendered]
    while todo:
        error = todo.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.stack[:] = [frame for frame in error.stack if frame.filename.startswith(PREFIX)]
        todo += [
            cause for cause in (error.__cause__, error.__context__, *(error.exceptions or ())) if cause is not None
        ]
    return rendered.stack[-1].lineno if rendered.stack else None


def _message(rendered: traceback.TracebackException) -> str:
    """Return what follows `Name: ` at the end of the traceback; a hostile __str__ has been dealt with by then."""
    lines = list(rendered.format_exception_only())
    _, _, message = lines[0 if not lines[0].startswith("  File") else -1].strip().partition(": ")
    return message


def _cut(text: str, size: int) -> str:
    return (
        text if len(text) <= size else f"{text[: size // 2]}… ({len(text) - size:,} characters) …{text[-size // 2 :]}"
    )


def _limit(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return "memory"
    with contextlib.suppress(Exception):
        if isinstance(error, BlockingIOError) and error.errno == errno.EAGAIN:
            return "processes"
        if isinstance(error, OSError) and error.errno in _FULL:
            return "files"
        if type(error) is RuntimeError and "can't start new thread" in error.args:
            return "processes"
    return None
