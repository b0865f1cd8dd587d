"""The sessions behind the tools: one for each first question, opened again for those that follow.

At most so many runs are under way at once; the others wait. A session is closed after each question, but for the latest
ones, whose kernels stay for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from ..chat.errors import SessionError
from ..chat.journal import Journal, find_journal
from ..chat.settings import SessionSettings
from ..events import Observer
from ..results import ExecutionResult
from ..signatures import Signature, SignatureError
from ..task_session import QUESTION, TaskSession, new_session, reopen_session
from ..tasks import Recorded, Task, TaskError, load
from ..tasks.yaml_document import read
from ..text import shorten
from .answers import Answer, answer_of
from .documents import Documents, Folders, NotReadable

INSTRUCTIONS = "Answer the question from `documents`, which has the text of each file by its path. Be brief."
_INPUTS = f"documents: dict[str, str], {QUESTION}: str"
_MARK = "mcp_server"
_NOT_USED = ("inputs", "checks", "cite", "map", "mode", "plans", "agree")
_MAX_TYPE = 1_000
_IDLE_S = 120.0
_CANCELLED_S = 10.0


@dataclass(frozen=True)
class Settings:
    """How questions are answered."""

    models: Mapping[str, str] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    task_file: Path | None = None
    """A task file whose models, limits and tools are used. Its signature and inputs are not."""

    parallel: int = 4
    """Runs at once."""

    open_sessions: int = 8
    """Sessions that are not closed after a question."""


class UnknownQuestion(NotReadable):
    """A session or run that this caller may not see, or that there is not."""


class Sessions:
    """Asks questions, each in a session."""

    def __init__(self, settings: Settings) -> None:
        """Raise `TaskError` for settings with which no question could be asked."""
        self.settings = settings
        self._turns = asyncio.Semaphore(settings.parallel)
        self._open: OrderedDict[str, TaskSession] = OrderedDict()
        self._busy: set[str] = set()
        self.max_iterations = task_of(settings, Documents()).trigger.max_iterations
        """The most iterations of a question."""

    async def ask(self, question: str, documents: Documents, answer_type: str, cite: bool, observe: Observer) -> Answer:
        """Ask the first question about documents."""
        signature = _signature(answer_type, cite)
        async with self._turn():
            session = await asyncio.to_thread(self._new, documents, question)
            async with self._used(session):
                result = await _run(session, question, signature, observe)
        return answer_of(result, session.chat.id, documents.paths, documents.left_out)

    async def ask_more(
        self, session_id: str, question: str, folders: Folders, answer_type: str, cite: bool, observe: Observer
    ) -> Answer:
        """Ask a further question about the same documents, with the variables of the earlier ones."""
        signature = _signature(answer_type, cite)
        paths = await asyncio.to_thread(self.paths_of, session_id, folders)
        if session_id in self._busy:
            raise UnknownQuestion(f"session {session_id} is answering another question; ask again when it has")
        self._busy.add(session_id)
        try:
            async with self._turn():
                session = self._open.pop(session_id, None)
                if session is None:
                    session = await asyncio.to_thread(reopen_session, session_id)
                async with self._used(session):
                    result = await _run(session, question, signature, observe)
        finally:
            self._busy.discard(session_id)
        return answer_of(result, session_id, paths, [])

    def paths_of(self, session_id: str, folders: Folders) -> dict[str, str]:
        """Return the files of a session. Raise `UnknownQuestion` unless it was made here and all may be read."""
        unknown = UnknownQuestion(f"there is no session {session_id!r:.60} about files that may be read here")
        if not session_id.isalnum():
            raise unknown
        try:
            with contextlib.closing(Journal.open(find_journal(session_id), read_only=True)) as journal:
                about = journal.about
        except SessionError:
            raise unknown from None
        paths = ((about.get("task") or {}).get(_MARK) or {}).get("paths")
        if about["id"] != session_id or not paths or not all(map(folders.allows, paths.values())):
            raise unknown
        return dict(paths)

    async def close(self) -> None:
        """Close what is open."""
        while self._open:
            _, session = self._open.popitem()
            await asyncio.to_thread(session.chat.close)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._turns:
            yield

    @contextlib.asynccontextmanager
    async def _used(self, session: TaskSession) -> AsyncIterator[None]:
        """Keep a session open after its question, and close the one that was not used for longest."""
        try:
            yield
        finally:
            self._open[session.chat.id] = session
            while len(self._open) > self.settings.open_sessions:
                _, oldest = self._open.popitem(last=False)
                with anyio.CancelScope(shield=True):
                    await asyncio.to_thread(oldest.chat.close)

    def _new(self, documents: Documents, question: str) -> TaskSession:
        title = shorten(" ".join(question.split()), 80)
        return new_session(task_of(self.settings, documents), SessionSettings(idle_seconds=_IDLE_S, title=title))


def task_of(settings: Settings, documents: Documents) -> Task:
    """Return the task of a session about documents. Raise `TaskError`."""
    content: dict[str, Any] = {}
    path = Path.cwd() / "session.yaml"
    if settings.task_file is not None:
        path = settings.task_file.absolute()
        document = read(path)
        if document.problems:
            raise TaskError(document.problems)
        content = dict(document.value) if isinstance(document.value, dict) else {}
    for key in _NOT_USED:
        content.pop(key, None)
    content = {**content, "instructions": INSTRUCTIONS, "signature": f"{_INPUTS} -> answer: str"}
    text = json.dumps(content)  # which is YAML, too
    recorded = Recorded(text, {"documents": documents.texts}, dict(settings.models), dict(settings.budget))
    task = load(path, recorded=recorded, partial=True)
    return replace(task, source={**(task.source or {}), _MARK: {"paths": documents.paths}})


async def _run(session: TaskSession, question: str, signature: Signature, observe: Observer) -> ExecutionResult[Any]:
    """Ask in a session. Cancelling it cancels the run, and waits until that has stopped."""
    run = session.start(question, signature=signature, observe=observe)
    try:
        return await run
    except asyncio.CancelledError:
        run.cancel()
        with anyio.CancelScope(shield=True), contextlib.suppress(Exception):  # the caller's scope cancels every wait
            await asyncio.to_thread(run.result, _CANCELLED_S)
        raise


def _signature(answer_type: str, cite: bool) -> Signature:
    """Return the signature of a question. Raise `NotReadable` for a type that is none."""
    if len(answer_type) > _MAX_TYPE:
        raise NotReadable(f"`answer_type` has more than {_MAX_TYPE:,} characters")
    try:
        signature = Signature.of(f"{_INPUTS} -> answer: {answer_type}", instructions=INSTRUCTIONS)
        if [output.name for output in signature.outputs] != ["answer"]:
            raise NotReadable("`answer_type` is one type, such as list[str]")
        return signature.citing(["answer"]) if cite else signature
    except SignatureError as error:
        raise NotReadable(f"`answer_type`: {str(error).splitlines()[0]}") from None
