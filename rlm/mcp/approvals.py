"""Approvals: calls of tools that may change something are shown to a person once, and answered once.

A question is on file while it waits: a function of the caller, a terminal, `rlm escalations` and the page of `rlm view`
can answer it, and the first answer counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import RlmError
from ..events import ApprovalAnswered, ApprovalRequested
from ..files import home
from ..plans.json_log import JsonEntry, JsonLog, JsonLogError
from ..plans.plan import new_id, now
from ..redaction import Redactor
from ..repl.host_calls import CallSite
from ..text import clean, count, shorten

Scope = Literal["calls", "cell", "run"]
SCOPES: tuple[Scope, ...] = ("calls", "cell", "run")
_POLL_S = 0.2
_GATHER_S = 0.05
_SHOWN = 20
_NO_LONGER = "the cell no longer waits for an answer"
_TERMINAL_S = 3_600.0
"""How long a question waits where a terminal or a function of the caller is asked, unless a longer time is set."""


class ApprovalAlreadyAnswered(RlmError, ValueError):
    """Somebody has answered this question before."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a cell wants to do, and a person is asked about."""

    server: str
    tool: str
    """The name of the tool at its server."""

    function: str
    """The name of the function that the cell has called."""

    calls: tuple[Mapping[str, Any], ...]
    """The arguments of each call."""

    run_id: str = ""
    iteration: int = 0
    approval_id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalRequest:
        """Return the request in a log entry."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**{**known, "calls": tuple(data["calls"])})

    @property
    def title(self) -> str:
        """The question in one line."""
        number = len(self.calls)
        times = "" if number == 1 else f" {count(number, 'time')}"
        return f"this cell wants to call {clean(self.function)}{times} (tool {clean(self.tool)} of {self.server})"

    def lines(self, most: int = _SHOWN, width: int = 200) -> list[str]:
        """Return the arguments of the calls, a line each, in at most `most` lines."""
        shown = [shorten(clean(json.dumps(call, ensure_ascii=False)), width) for call in self.calls[:most]]
        left = len(self.calls) - len(shown)
        return [*shown, *([f"... and {count(left, 'more call')}"] if left else [])]


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to a request."""

    approval_id: str
    approved: bool
    scope: Scope = "calls"
    """What is approved: the calls that were shown, all calls of this tool in the cell, or in the run."""

    note: str | None = None
    answered_by: str = "operator"
    timestamp: str = field(default_factory=now)

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise ValueError(f"a scope is one of {', '.join(SCOPES)}, not {self.scope!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalAnswer:
        """Return the answer in a log entry."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


Answered: TypeAlias = bool | Scope | ApprovalAnswer | None
Approver: TypeAlias = Callable[[ApprovalRequest], Answered | Awaitable[Answered]]
"""Answers a request: True for these calls, `cell` or `run` for more of them, False for none; None leaves it open."""


class ApprovalLogs:
    """The files of requests and answers, which many runs and processes share."""

    def __init__(self, folder: Path | str | None = None) -> None:
        """The default folder is `approvals` in `RLM_HOME`."""
        self.folder = Path(folder) if folder is not None else home() / "approvals"
        self.requests = JsonLog(self.folder / "requests.json")
        self.answers = JsonLog(self.folder / "answers.json")

    def add(self, request: ApprovalRequest) -> None:
        """Put a request on file, without secrets."""
        self.requests.append(_redacted({**asdict(request), "calls": list(request.calls)}))

    def all(self) -> list[ApprovalRequest]:
        """Return all requests, oldest first."""
        return [ApprovalRequest.from_dict(entry) for entry in self.requests.read()]

    def answer_to(self, approval_id: str) -> ApprovalAnswer | None:
        """Return the answer to a request, if there is one."""
        found = [entry for entry in self.answers.read() if entry.get("approval_id") == approval_id]
        return ApprovalAnswer.from_dict(found[0]) if found else None

    def answer(self, answer: ApprovalAnswer) -> ApprovalAnswer:
        """Put an answer on file and return the effective one, which is the first."""

        def earlier(entries: list[JsonEntry]) -> JsonEntry | None:
            return next((entry for entry in entries if entry.get("approval_id") == answer.approval_id), None)

        existing = self.answers.append_unless(_redacted(asdict(answer)), earlier)
        return answer if existing is None else ApprovalAnswer.from_dict(existing)

    def answer_once(self, answer: ApprovalAnswer) -> None:
        """Put an answer on file. Raise `ApprovalAlreadyAnswered` where there is one."""
        effective = self.answer(answer)
        if effective is not answer:
            what = "approved" if effective.approved else "rejected"
            raise ApprovalAlreadyAnswered(
                f"approval {answer.approval_id} was {what} at {effective.timestamp} by {effective.answered_by}"
            )

    async def wait(self, approval_id: str, timeout: float) -> ApprovalAnswer | None:
        """Return the answer as soon as it is on file; None after the timeout."""
        deadline, seen = time.monotonic() + timeout, object()
        while True:
            state = _state(self.answers.path)
            if state != seen:
                seen = state
                with contextlib.suppress(JsonLogError):  # it may be being edited by hand
                    if (answer := self.answer_to(approval_id)) is not None:
                        return answer
            if (left := deadline - time.monotonic()) <= 0:
                return None
            await asyncio.sleep(min(_POLL_S, left))


class Approvals:
    """Asks about calls, and knows what was answered. One for the servers of a task, whose runs it keeps apart."""

    def __init__(self, approver: Approver | None = None, logs: ApprovalLogs | None = None) -> None:
        """`approver` is asked in place of a terminal."""
        self.approver = approver
        self._logs = logs
        self._granted: dict[tuple[Any, ...], ApprovalAnswer] = {}
        self._gathering: dict[tuple[Any, ...], tuple[list[Any], asyncio.Future[ApprovalAnswer]]] = {}

    @property
    def logs(self) -> ApprovalLogs:
        """The files, which are those of `RLM_HOME` when they are first needed."""
        if self._logs is None:
            self._logs = ApprovalLogs()
        return self._logs

    async def ask(
        self, server: str, tool: str, function: str, calls: list[dict[str, Any]], site: CallSite | None, timeout: float
    ) -> ApprovalAnswer:
        """Return the answer about calls. Those that threads of a cell make at the same time are one question."""
        run_id, iteration = (site.run_id, site.iteration) if site is not None else ("", 0)
        cell = (id(asyncio.get_running_loop()), run_id, iteration, function)
        for key in (cell, (run_id, function)):
            if (known := self._granted.get(key)) is not None:
                return known
        if cell in self._gathering:
            gathered, future = self._gathering[cell]
            gathered += calls
            return await asyncio.shield(future)
        future = asyncio.get_running_loop().create_future()
        gathered = list(calls)
        self._gathering[cell] = gathered, future
        try:
            await asyncio.sleep(_GATHER_S)
            del self._gathering[cell]
            request = ApprovalRequest(server, tool, function, tuple(gathered), run_id, iteration)
            answer = await self._decide(request, site, timeout)
        except BaseException:
            self._gathering.pop(cell, None)
            future.cancel()
            raise
        self._remember(answer, cell, (run_id, function))
        future.set_result(answer)
        return answer

    def _remember(self, answer: ApprovalAnswer, cell: tuple[Any, ...], run: tuple[Any, ...]) -> None:
        """Keep an answer that is about more than the calls: a refusal is one for the whole cell."""
        if answer.approved and answer.scope == "run":
            self._granted[run] = answer
        elif answer.scope == "cell" or not answer.approved:
            self._granted[cell] = answer

    async def _decide(self, request: ApprovalRequest, site: CallSite | None, timeout: float) -> ApprovalAnswer:
        approver = self.approver
        if approver is None and timeout <= 0:
            return ApprovalAnswer(request.approval_id, False, note="nobody can be asked here", answered_by="nobody")
        seconds = max(timeout, _TERMINAL_S) if approver is not None else timeout
        await asyncio.to_thread(self.logs.add, request)
        if site is not None:
            shown = request.lines()
            site.emit(
                ApprovalRequested(
                    site.run_id, request.approval_id, request.iteration, request.function, len(request.calls), shown
                )
            )
        try:
            answer = await self._first_answer(request, approver, seconds)
        except asyncio.CancelledError:
            with contextlib.suppress(JsonLogError):
                self.logs.answer(ApprovalAnswer(request.approval_id, False, note=_NO_LONGER, answered_by="nobody"))
            raise
        if answer is None:
            answer = ApprovalAnswer(
                request.approval_id, False, note=f"no answer in {seconds:g} s", answered_by="timeout"
            )
        answer = await asyncio.to_thread(self.logs.answer, answer)
        if site is not None:
            about = (answer.approved, answer.scope, answer.answered_by, answer.note)
            site.emit(ApprovalAnswered(site.run_id, request.approval_id, request.iteration, *about))
        return answer

    async def _first_answer(
        self, request: ApprovalRequest, approver: Approver | None, timeout: float
    ) -> ApprovalAnswer | None:
        filed = asyncio.ensure_future(self.logs.wait(request.approval_id, timeout))
        asked = asyncio.ensure_future(_asked(approver, request)) if approver is not None else None
        try:
            if asked is not None:
                await asyncio.wait([filed, asked], return_when=asyncio.FIRST_COMPLETED)
                if not filed.done() and (answer := asked.result()) is not None:
                    return answer
            return await filed
        finally:
            for task in filter(None, (filed, asked)):
                task.cancel()


async def _asked(approver: Approver, request: ApprovalRequest) -> ApprovalAnswer | None:
    """Ask a function of the caller. What it raises is a refusal that says so."""
    try:
        if inspect.iscoroutinefunction(approver):
            answer = await approver(request)
        else:
            answer = await asyncio.to_thread(approver, request)
            answer = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        note = f"the function that was asked failed: {type(error).__name__}: {error}"
        return ApprovalAnswer(request.approval_id, False, note=note, answered_by="function")
    if answer is None or isinstance(answer, ApprovalAnswer):
        return answer
    if isinstance(answer, bool):
        return ApprovalAnswer(request.approval_id, answer, answered_by="function")
    return ApprovalAnswer(request.approval_id, True, answer, answered_by="function")


def _state(path: Path) -> Any:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _redacted(entry: JsonEntry) -> JsonEntry:
    redactor = Redactor()

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return redactor.text(value)
        if isinstance(value, Mapping):
            return {redactor.text(str(key)): plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    redacted: JsonEntry = plain(entry)
    return redacted
