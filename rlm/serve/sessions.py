"""The sessions that are open in the server: opened when they are used, closed when others need the place.

A session that is closed here is on the disk, and is opened again by its next question: its kernel is rebuilt then. That
is also how sessions go on after the server was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..chat.errors import SessionError, SessionInUse, UnknownSession
from ..chat.journal import delete_journal, find_journal
from ..chat.settings import SessionSettings
from ..signatures import InvalidInputs
from ..task_session import TaskSession, new_session, reopen_session
from ..tasks import TaskError
from .errors import RequestRefused, bad_request, not_found
from .store import ServerStore, SessionRow
from .tasks import ServedTask, size_of
from .tokens import Token


@dataclass
class _Open:
    """A session that is open, and how many use it."""

    session: TaskSession
    users: int = 0
    used: float = field(default_factory=time.monotonic)


class OpenSessions:
    """At most so many sessions, with their kernels, at a time. To be used in the server's event loop."""

    def __init__(self, store: ServerStore, *, most: int = 32, idle_seconds: float = 120.0, root: Path) -> None:
        self._store, self._most, self._idle, self._root = store, most, idle_seconds, root
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def create(self, token: Token, served: ServedTask, inputs: Mapping[str, Any], title: str) -> SessionRow:
        """Make a session of a token's owner. Raise `RequestRefused`."""
        if not served.has_sessions:
            raise bad_request(f"{served.name!r} has plans or several runs, which sessions do not have", "model")
        self.check_count(token)
        size = self.check_size(token, inputs, 0)
        own, others = served.divided(inputs)
        session = await asyncio.to_thread(self._new, served, own, others, title)
        now = time.time()
        row = SessionRow(session.chat.id, token.id, served.name, title, now, now, size)
        await self._add(row, session)
        return row

    async def branch(self, token: Token, row: SessionRow, run_id: str | None = None) -> SessionRow:
        """Make a copy of a session; with a run, one that goes on after its question. Raise `RequestRefused`."""
        self.check_count(token)
        async with self.use(row) as session:
            branch_id = await asyncio.to_thread(_branch_after, session, run_id)
        now = time.time()
        made = SessionRow(branch_id, token.id, row.model, row.title, now, now, row.bytes)
        self._store.add_session(made)
        return made

    def check_count(self, token: Token) -> None:
        """Raise `RequestRefused` where a token can have no further session."""
        if self._store.count_sessions(token.id) >= token.limits.sessions:
            raise RequestRefused(
                403, f"This token has its {token.limits.sessions} sessions; delete one first.", "too_many_sessions"
            )

    def check_size(self, token: Token, inputs: Mapping[str, Any], before: int) -> int:
        """Return the bytes of inputs. Raise `RequestRefused` where a session would get more than it may have."""
        size = sum(map(size_of, inputs.values()))
        if before + size > token.limits.input_bytes:
            raise RequestRefused(
                413,
                f"{before + size:,} bytes of inputs are too many: {token.limits.input_bytes:,} at most for a session.",
                "inputs_too_large",
                param="inputs",
            )
        return size

    @contextlib.asynccontextmanager
    async def use(self, row: SessionRow) -> AsyncIterator[TaskSession]:
        """Open a session, if it is not open, and keep it open meanwhile. Raise `RequestRefused`."""
        held = await self._acquire(row)
        try:
            yield held.session
        finally:
            held.users -= 1
            held.used = time.monotonic()
            await self._make_room()

    async def remove(self, row: SessionRow) -> None:
        """Close a session and delete it. Raise `RequestRefused` while it is used."""
        async with self._lock(row.id):
            held = self._open.get(row.id)
            if held is not None and held.users:
                raise RequestRefused(409, "The session is answering a question; cancel it first.", "session_busy")
            self._open.pop(row.id, None)
            if held is not None:
                await asyncio.to_thread(held.session.chat.close)
            with contextlib.suppress(UnknownSession):
                await asyncio.to_thread(lambda: delete_journal(find_journal(row.id, self._root)))
            self._store.remove_session(row.id)
        self._locks.pop(row.id, None)

    async def close(self) -> None:
        """Close all sessions. They go on when a server runs again."""
        held, self._open = list(self._open.values()), OrderedDict()
        for session in held:
            with contextlib.suppress(Exception):
                await asyncio.to_thread(session.session.chat.close)

    @property
    def open_ids(self) -> list[str]:
        """The sessions that are open now."""
        return list(self._open)

    def _new(self, served: ServedTask, own: Mapping[str, Any], others: Mapping[str, Any], title: str) -> TaskSession:
        settings = SessionSettings(idle_seconds=self._idle, title=title)
        task = served.task if served.free else served.with_inputs(own)
        with session_errors():
            try:
                session = new_session(task, settings, root=self._root)
            except SessionError as error:
                raise bad_request(str(error), "inputs") from None
            try:
                if others:
                    session.chat.set(**others)
            except BaseException:
                session.chat.close()
                with contextlib.suppress(OSError, SessionError):
                    delete_journal(find_journal(session.chat.id, self._root))
                raise
        return session

    async def _add(self, row: SessionRow, session: TaskSession) -> None:
        self._store.add_session(row)
        self._open[row.id] = _Open(session)
        await self._make_room()

    async def _acquire(self, row: SessionRow) -> _Open:
        async with self._lock(row.id):
            held = self._open.get(row.id)
            if held is None:
                session = await asyncio.to_thread(self._reopened, row)
                held = self._open[row.id] = _Open(session)
            held.users += 1
            self._open.move_to_end(row.id)
        return held

    def _reopened(self, row: SessionRow) -> TaskSession:
        try:
            with session_errors():
                return reopen_session(row.id, root=self._root)
        except TaskError as error:
            raise RequestRefused(
                409, f"The task of the session cannot be read any more: {error}", "task_changed"
            ) from None

    async def _make_room(self) -> None:
        """Close the sessions that were used longest ago, as long as there are too many."""
        for session_id in list(self._open):
            if len(self._open) <= self._most:
                return
            held = self._open.get(session_id)
            if held is None or held.users:
                continue
            async with self._lock(session_id):
                if held.users or self._open.get(session_id) is not held:
                    continue
                del self._open[session_id]
                await asyncio.to_thread(held.session.chat.close)

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())


@contextlib.contextmanager
def session_errors() -> Any:
    """Turn what is wrong with a session or with inputs into refusals."""
    try:
        yield
    except InvalidInputs as error:
        raise bad_request(str(error), "inputs") from None
    except UnknownSession:
        raise not_found("session", "of this id any more") from None
    except SessionInUse:
        raise RequestRefused(
            409, "The session is open in another process; close it there.", "session_in_use", retry_after=5
        ) from None
    except SessionError as error:
        raise RequestRefused(409, str(error), "session_error") from None


def _branch_after(session: TaskSession, run_id: str | None) -> str:
    """Make a branch, and return its id. It is opened again with models of its own."""
    with session_errors():
        if run_id is not None and run_id not in {question.run_id for question in session.chat.questions}:
            raise RequestRefused(409, "The question to go on from was undone.", "question_undone")
        chat = session.chat.branch()
        try:
            while run_id is not None and chat.questions[-1].run_id != run_id:
                chat.undo()
        finally:
            chat.close()
    return chat.id
