"""The runs of the server: started within the limits of a token, followed, cancelled, and recorded when they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..events import Observer, fan_out
from ..redaction import Redactor
from ..run import Run
from ..runner import make_run
from ..signatures import InvalidInputs
from ..task_session import TaskSession
from ..tasks import Task
from ..traces.writer import default_observer
from .errors import RequestRefused, bad_request
from .feed import Feed, redacted
from .sessions import OpenSessions, session_errors
from .store import ServerStore, SessionRow
from .tasks import ServedTask
from .tokens import Token

_ENDED = 64
"""Runs that have ended whose events are kept for whoever comes late."""

_GRACE_S = 30.0
"""A run that is longer than its token allows by so much is cancelled: its budget has not ended it."""

_RETRY_S = 2
_logger = logging.getLogger("rlm.serve")


@dataclass(eq=False)
class ActiveRun:
    """A run that was started in this process."""

    id: str
    owner: str
    model: str
    session: str | None
    feed: Feed
    run: Run | None
    """None when it has ended."""

    seconds: float
    """The longest that it may take."""

    result: dict[str, Any] | None = None
    ending: str | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self) -> None:
        """Ask it to stop."""
        if self.run is not None:
            self.run.cancel()


class Runs:
    """The runs of all owners. To be used in the server's event loop."""

    def __init__(self, store: ServerStore, sessions: OpenSessions, *, most: int = 16) -> None:
        self._store, self._sessions, self._most = store, sessions, most
        self._active: dict[str, ActiveRun] = {}
        self._ended: OrderedDict[str, ActiveRun] = OrderedDict()
        self._places: Counter[str] = Counter()
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._redactor = Redactor()
        self._closing = False

    async def start(self, token: Token, served: ServedTask, inputs: Mapping[str, Any]) -> ActiveRun:
        """Start a run without a session. Raise `RequestRefused` before anything is started."""
        self._sessions.check_size(token, inputs, 0)
        with self._place(token, None) as keep:
            seconds = self._seconds(token)
            if served.free:
                task = await asyncio.to_thread(served.with_inputs, inputs)
            else:
                task = served.with_inputs(inputs)
            task = _within(task, seconds)

            def begin(observe: Observer) -> Run:
                missing = [
                    declared.name
                    for declared in task.signature.inputs
                    if declared.required and declared.name not in task.inputs
                ]
                if missing:
                    raise bad_request(f"the inputs {', '.join(missing)} have no value", "inputs")
                return make_run(task, observe=fan_out(default_observer(), observe)).start()

            active = await self._begin(token, served.name, None, seconds, begin)
            keep(active, contextlib.AsyncExitStack())
        return active

    async def ask(
        self,
        token: Token,
        served: ServedTask,
        row: SessionRow,
        question: str | None,
        inputs: Mapping[str, Any],
        *,
        lasting: bool = False,
    ) -> ActiveRun:
        """Ask in a session, or go on with its last question where `question` is None. Raise `RequestRefused`.

        The inputs are for this question; `lasting` ones, and those that the signature does not have, for later ones.
        """
        everything = {**inputs, **({} if question is None else {"question": question})}
        size = self._sessions.check_size(token, everything, row.bytes)
        with self._place(token, row.id) as keep:
            seconds = self._seconds(token)
            async with contextlib.AsyncExitStack() as stack:
                session = await stack.enter_async_context(self._sessions.use(row))

                def begin(observe: Observer) -> Run:
                    session.set_budget(max_duration=_within(served.task, seconds).trigger.max_duration)
                    return _asked(session, question, inputs, lasting, observe)

                active = await self._begin(token, row.model, row.id, seconds, begin)
                self._store.touch_session(row.id, size)
                keep(active, stack.pop_all())
        return active

    def find(self, owner: str, run_id: str) -> ActiveRun | None:
        """Return a run of an owner that runs, or has ended lately; None for any other."""
        active = self._active.get(run_id) or self._ended.get(run_id)
        return active if active is not None and active.owner == owner else None

    def is_busy(self, session_id: str) -> bool:
        """Return whether a session answers a question."""
        return session_id in self._busy

    @contextlib.contextmanager
    def between(self, session: str) -> Iterator[None]:
        """Keep questions from a session while it is changed. Raise `RequestRefused` while it answers one."""
        if session in self._busy:
            raise _busy()
        self._busy.add(session)
        try:
            yield
        finally:
            self._busy.discard(session)

    @property
    def count(self) -> int:
        """How many runs there are now."""
        return sum(self._places.values())

    async def close(self, seconds: float = 10.0) -> None:
        """Cancel all runs, and wait until they are recorded. They are on record as interrupted."""
        self._closing = True
        for active in self._active.values():
            active.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    @contextlib.contextmanager
    def _place(self, token: Token, session: str | None) -> Iterator[Callable[..., None]]:
        """Take a place for a run, and leave it unless the run is kept. Raise `RequestRefused` where there is none."""
        if self._closing:
            raise RequestRefused(503, "The server is stopping.", "stopping", retry_after=_RETRY_S)
        if self._places[token.id] >= token.limits.runs:
            text = f"This token has its {token.limits.runs} runs at the same time; ask again when one has ended."
            raise RequestRefused(429, text, "too_many_runs", retry_after=_RETRY_S)
        if self.count >= self._most:
            text = f"The server has its {self._most} runs at the same time; ask again later."
            raise RequestRefused(503, text, "server_busy", retry_after=_RETRY_S)
        if session is not None and session in self._busy:
            raise _busy()
        self._places[token.id] += 1
        if session is not None:
            self._busy.add(session)
        kept = False

        def leave() -> None:
            self._places[token.id] -= 1
            if session is not None:
                self._busy.discard(session)

        def keep(active: ActiveRun, stack: contextlib.AsyncExitStack) -> None:
            nonlocal kept
            kept = True
            task = asyncio.get_running_loop().create_task(self._finish(active, stack, leave))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        try:
            yield keep
        finally:
            if not kept:
                leave()

    def _seconds(self, token: Token) -> float:
        left = token.limits.day_seconds - self._store.day_seconds(token.id)
        if left <= 0:
            text = f"This token has used its {token.limits.day_seconds:,.0f} seconds of the last 24 hours."
            raise RequestRefused(429, text, "day_used_up", retry_after=600)
        return min(token.limits.run_seconds, left)

    async def _begin(
        self, token: Token, model: str, session: str | None, seconds: float, begin: Callable[[Observer], Run]
    ) -> ActiveRun:
        feed = Feed(asyncio.get_running_loop())
        with session_errors():
            try:
                run = await asyncio.to_thread(begin, feed)
            except (ValueError, InvalidInputs) as error:
                raise bad_request(str(error), "inputs") from None
        active = ActiveRun(run.id, token.id, model, session, feed, run, seconds)
        self._store.add_run(run.id, token.id, model, session)
        self._active[run.id] = active
        return active

    async def _finish(self, active: ActiveRun, stack: contextlib.AsyncExitStack, leave: Callable[[], None]) -> None:
        """Wait for the end of a run, and record it."""
        run = active.run
        assert run is not None
        waiting = asyncio.ensure_future(run)
        try:
            await asyncio.wait({waiting}, timeout=active.seconds + _GRACE_S)
            if not waiting.done():
                run.cancel()
                await asyncio.wait({waiting})
            active.ending, active.result = self._outcome(active, waiting)
        finally:
            active.run = None
            leave()
            try:
                self._store.end_run(active.id, active.ending or "failed", active.result)
                await stack.aclose()
            except Exception:
                _logger.exception("run %s: what it was could not be recorded", active.id)
            active.feed.add("result", {"run": active.id, "ending": active.ending, "result": active.result})
            active.feed.end()
            self._active.pop(active.id, None)
            self._ended[active.id] = active
            while len(self._ended) > _ENDED:
                self._ended.popitem(last=False)
            active.done.set()

    def _outcome(self, active: ActiveRun, waiting: asyncio.Future[Any]) -> tuple[str, dict[str, Any]]:
        error = waiting.exception()
        if error is not None:
            _logger.error("run %s failed", active.id, exc_info=error)
            return "failed", {"status": "failed", "reason": f"{type(error).__name__}", "run_id": active.id}
        result = waiting.result()
        plain = {name: value for name, value in result.to_dict().items() if name != "history"}
        interrupted = result.status == "failed" and result.reason == "interrupted"
        return "interrupted" if interrupted else result.status, redacted(plain, self._redactor)


def _asked(
    session: TaskSession, question: str | None, inputs: Mapping[str, Any], lasting: bool, observe: Observer
) -> Run:
    """Start a question in a session."""
    if question is None:
        return session.chat.start_resume(observe=observe)
    known = set() if lasting else {declared.name for declared in session.chat.signature.inputs}
    if kept := {name: value for name, value in inputs.items() if name not in known}:
        session.chat.set(**kept)
    own = {name: value for name, value in inputs.items() if name in known}
    return session.start(question, observe=observe, **own)


def _busy() -> RequestRefused:
    text = "The session answers another question; ask again when it has ended, or cancel it."
    return RequestRefused(409, text, "session_busy", retry_after=_RETRY_S)


def _within(task: Task, seconds: float) -> Task:
    """Return the task with at most so many seconds for a run."""
    return replace(task, trigger=replace(task.trigger, max_duration=min(task.trigger.max_duration, seconds)))
