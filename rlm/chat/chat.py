"""`Chat`: a session of several questions over the same kernel. Each question is a run of its own.

with rlm.Predict("log, question -> answer: int").session(log=text) as chat:
    chat.ask(question="How many errors?")
    chat.ask("question -> worst: list[str]", question="Which services have most of them?")
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..budgets import FallbackTrigger, Ledger, Usage
from ..events import Observer, fan_out, ignore
from ..repl.config import RunConfig
from ..repl.loop import new_run_id
from ..repl.tools import RESERVED
from ..results import ExecutionResult
from ..run import Run, run_sync
from ..signatures import Signature
from ..signatures.validation import InvalidInputs, Problem
from .errors import SessionError
from .journal import SUFFIX, Journal, QuestionRecord
from .kernel import ChatKernel, Rebuilt, RecordedCell, cells_of
from .question import QuestionLoop, plain_inputs
from .recording import recorded_run, signature_info, spent
from .settings import SessionSettings

Configure = Callable[[Observer], RunConfig]
"""Returns the configuration of a run that an observer watches: signature, models, budget of one question, tools."""

_SAME = "..."


@dataclass(frozen=True, slots=True)
class ChatVariable:
    """A variable of a session, as it was after the last question."""

    name: str
    type: str
    size: Any
    preview: str
    made: int
    """The question whose code made it; 0 for one that was there before."""

    changed: int
    """The last question whose code changed it."""

    used: int
    """The last question whose code read it."""


ASKS = "question"


class Chat:
    """A session of several questions. Ask from any thread; questions are answered one after another.

    In synchronous code everything runs in the background event loop; with `aask`, in the event loop of the caller.
    """

    def __init__(
        self, configure: Configure, journal: Journal, settings: SessionSettings, *, recorder: Observer = ignore
    ) -> None:
        """Use `new_chat` or `reopen_chat`: see `sessions.py`."""
        self._configure, self._journal, self._settings, self._recorder = configure, journal, settings, recorder
        self.id: str = journal.about["id"]
        self.signature = configure(ignore).signature
        self.asks = ASKS
        """The input that takes what is asked. Its text is in the prompt, up to 4,000 characters."""

        self._inputs: dict[str, Any] = {}
        self._kernel = ChatKernel(journal, self._restore)
        self._total = Ledger(settings.total, spent=spent(journal))
        self._since = time.monotonic()  # the time between questions is nobody's
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._in_background: bool | None = None
        self._busy = self._closed = False

    # Asking ------------------------------------------------------------------------------------------------------

    def ask(self, signature: Any = None, /, **inputs: Any) -> ExecutionResult[Any]:
        """Ask a question and wait for its result. Raise `InvalidInputs` before anything is started.

        The inputs are those of the signature that the session does not have yet. A `signature` is for this question
        only; `"... -> total: float"` has the inputs of the session's own. Ctrl-C stops the question, not the session.
        """
        return self.start(signature, **inputs).result()

    def start(self, signature: Any = None, /, observe: Observer = ignore, **inputs: Any) -> Run:
        """Start a question in the background, after those before it, and return the handle of its run."""
        self._use(background=True)
        return self._question(signature, inputs, observe).start()

    async def aask(self, signature: Any = None, /, **inputs: Any) -> ExecutionResult[Any]:
        """As `ask`, in the event loop of the caller."""
        if self._in_background:
            return await self._question(signature, inputs, ignore).start()
        self._use(background=False)
        return await self._question(signature, inputs, ignore)

    def resume(self, *, observe: Observer = ignore) -> ExecutionResult[Any]:
        """Go on with the last question, which was interrupted or killed. No model is asked twice."""
        self._use(background=True)
        return self._resumed(observe).start().result()

    async def aresume(self) -> ExecutionResult[Any]:
        """As `resume`, in the event loop of the caller."""
        if self._in_background:
            return await self._resumed(ignore).start()
        self._use(background=False)
        return await self._resumed(ignore)

    def start_resume(self, *, observe: Observer = ignore) -> Run:
        """As `resume`, in the background; return the handle of the run."""
        self._use(background=True)
        return self._resumed(observe).start()

    # Between questions -------------------------------------------------------------------------------------------

    def set(self, **inputs: Any) -> None:
        """Add inputs, or replace those that the session has. The next question has them. Raise `InvalidInputs`."""
        self._check_open()
        values = plain_inputs(self.signature, inputs)
        taken = [name for name in values if name in RESERVED]
        if taken:
            problem = Problem(f"/{taken[0]}", "another name", "a name of the REPL")
            raise InvalidInputs("these inputs cannot be set:", [problem])
        questions = self.questions
        self._record_inputs(questions[-1].number if questions else 0, values)
        self._inputs |= values
        self._kernel.read -= values.keys()

    def drop(self, *names: str) -> None:
        """Delete variables, and with them the memory that they take."""
        self._check_open()
        known = {variable.name for variable in self.variables}
        if missing := [name for name in names if name not in known]:
            raise SessionError(f"session {self.id} has no variable {', '.join(missing)}")
        if not names:
            return
        code, last = f"del {', '.join(names)}", self.questions[-1]
        self._between(lambda: self._kernel.run(code))
        cell = {"code": code, "output": "", "ok": True, "seconds": 0.0, "limit": None, "kept": True}
        self._journal.add_step(last.number, "", 0, "cell", cell)
        left = {name: about for name, about in last.variables.items() if name not in names}
        self._journal.update_question(last.number, variables=left)
        self._kernel.variables = {
            name: variable for name, variable in self._kernel.variables.items() if name not in names
        }

    def undo(self) -> QuestionRecord:
        """Undo the last question, and inputs that were set after it. What it cost stays spent. Return its record."""
        self._check_open()
        questions = self.questions
        if not questions:
            raise SessionError(f"session {self.id} has no question to undo")
        if self._busy:
            raise SessionError(f"session {self.id} is answering a question; interrupt it first")
        self._between(self._kernel.give_back)
        self._journal.update_question(questions[-1].number, undone=1)
        self._inputs = self._recorded_inputs()
        return questions[-1]

    def branch(self, *, title: str = "") -> Chat:
        """Return an independent copy that starts from here. Its kernel is made for its first question, by replay."""
        self._check_open()
        if self._busy:
            raise SessionError(f"session {self.id} is answering a question; branch from it afterwards")
        chat_id = new_run_id()
        path = self._journal.path
        copy = self._journal.copy(
            None if path is None else path.with_name(f"{chat_id}{SUFFIX}"),
            {"id": chat_id, "branch_of": self.id, "created": time.time(), "title": title or self.title},
        )
        branch = Chat(self._configure, copy, self._settings, recorder=self._recorder)
        branch._inputs = dict(self._inputs)
        branch._kernel.read = self._kernel.read
        branch._kernel._unrecorded = dict(self._kernel._unrecorded)
        return branch

    # What there is -----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What the session is about."""
        return str(self._journal.about.get("title") or "")

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that every question has."""
        return dict(self._inputs)

    @property
    def questions(self) -> list[QuestionRecord]:
        """The questions so far, without those that were undone."""
        return self._journal.questions()

    @property
    def cells(self) -> list[RecordedCell]:
        """The cells of all questions, in order."""
        return [cell for question in self.questions for cell in cells_of(self._journal, question)]

    @property
    def variables(self) -> list[ChatVariable]:
        """The variables after the last question, the inputs left out."""
        questions = self.questions
        last = questions[-1].variables if questions else {}
        return [
            ChatVariable(name, *(about[key] for key in ("type", "size", "preview", "made", "changed", "used")))
            for name, about in last.items()
        ]

    def unused(self, questions: int = 3) -> list[ChatVariable]:
        """Return variables with values that no code has read for so many questions: `drop` deletes them."""
        last = max((question.number for question in self.questions), default=0)
        return [
            variable
            for variable in self.variables
            if variable.size is not None and max(variable.used, variable.changed) <= last - questions
        ]

    @property
    def usage(self) -> Usage:
        """What all questions together have used, those that were undone included."""
        return replace(self._total.usage(), seconds=spent(self._journal).seconds)

    @property
    def total(self) -> FallbackTrigger:
        """The budget of all questions together."""
        return self._settings.total

    @property
    def rebuilt(self) -> Rebuilt | None:
        """How the kernel was rebuilt last, and which variables came out different."""
        return self._kernel.rebuilt

    @property
    def has_kernel(self) -> bool:
        """Whether the session has a kernel now. One that was idle for long has given it back."""
        return self._kernel.alive

    @property
    def unfinished(self) -> QuestionRecord | None:
        """The last question, where it was interrupted or its process was killed: `resume` goes on with it."""
        questions = self.questions
        if not questions or self._busy or questions[-1].ending not in (None, "interrupted"):
            return None
        return questions[-1]

    @property
    def problem(self) -> str | None:
        """Why the session would not survive its process, if it would not."""
        return self._journal.problem

    def export(self, form: str) -> tuple[str, list[str]]:
        """Return the session as a notebook (`ipynb`), as `json` or as text to read (`md`), and notes about it."""
        from .export import export

        return export(self._journal, form)

    # Lifetime ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the kernel back and close the journal. A session that is recorded can be opened again by its id."""
        if self._closed:
            return
        self._closed = True
        self._between(self._kernel.give_back)
        self._journal.close()

    async def aclose(self) -> None:
        """As `close`, in the event loop of the session."""
        if self._closed:
            return
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
        await self._kernel.give_back()
        self._journal.close()

    def __enter__(self) -> Chat:
        self._use(background=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Chat:
        self._use(background=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return (
            f"Chat({self.id!r}, {len(self.questions)} questions)" if not self._closed else f"Chat({self.id!r}, closed)"
        )

    # One question ------------------------------------------------------------------------------------------------

    def _question(self, source: Any, inputs: Mapping[str, Any], observe: Observer) -> Run:
        self._check_open()
        signature = self._signature(source)
        return Run(lambda watch: QuestionLoop(self, signature, inputs, watch), fan_out(self._recorder, observe))

    def _resumed(self, observe: Observer) -> Run:
        self._check_open()
        question = self.unfinished
        if question is None:
            raise SessionError(f"session {self.id} has no question that was interrupted")
        signature = self._signature_of(question)
        own: dict[str, Any] = {}
        for step in self._journal.steps(question.number):
            if step.kind == "asked":
                own |= self._kernel.restored(question, step)
        past = recorded_run(self._journal, question)
        return Run(
            lambda watch: QuestionLoop(self, signature, own, watch, question, past), fan_out(self._recorder, observe)
        )

    def _signature(self, source: Any) -> Signature:
        if source is None:
            return self.signature
        if isinstance(source, str) and source.lstrip().startswith(_SAME):
            right = Signature.of(f"x {source.lstrip()[len(_SAME) :]}", reserved=RESERVED)
            return Signature(
                right.name,
                right.instructions.replace("`x`", _listed(self.signature)),
                self.signature.inputs,
                right.outputs,
            )
        return Signature.of(source, reserved=RESERVED)

    def _signature_of(self, question: QuestionRecord) -> Signature:
        """Return the signature of a recorded question: the session's own, or one that its text describes."""
        own = signature_info(self.signature)
        if question.signature == own:
            return self.signature
        try:
            signature = Signature.of(question.signature["text"])
        except ValueError as error:
            raise SessionError(
                f"question {question.number} of session {self.id} had a signature of its own types, which its record "
                f"does not have ({error}); ask it again"
            ) from None
        return Signature(
            question.signature["name"], question.signature["instructions"], signature.inputs, signature.outputs
        )

    def _restore(self, question: QuestionRecord | None, values: Mapping[str, Any]) -> dict[str, Any]:
        """Give recorded inputs the types of the signature again: dates, sets and tuples are JSON in the journal."""
        signature = self.signature
        if question is not None:
            with contextlib.suppress(SessionError):
                signature = self._signature_of(question)
        return plain_inputs(signature, values)

    def _record_inputs(self, question: int, inputs: Mapping[str, Any], kind: str = "inputs") -> None:
        if inputs:
            self._journal.add_inputs(question, inputs, kind=kind)
            self._kernel.keep_unrecorded(question, inputs)

    def _recorded_inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for number in (0, *(question.number for question in self.questions)):
            for step in self._journal.steps(number):
                if step.kind == "inputs":
                    inputs |= self._kernel.restored(None, step)
        return inputs

    # State -------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until the questions before are answered."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # `asyncio.run` was called again: the kernel was watched by a loop that is gone
            if self._busy:
                raise SessionError(f"session {self.id} is answering a question in another event loop")
            await self._kernel.give_back()
            self._loop, self._lock = loop, asyncio.Lock()
        async with self._lock:
            self._check_open()
            if self._idle is not None:
                self._idle.cancel()
            self._busy = True
            self._total.excuse(time.monotonic() - self._since)
            try:
                yield
            finally:
                self._busy, self._since = False, time.monotonic()
                if math.isfinite(self._settings.idle_seconds) and not self._closed:
                    self._idle = loop.call_later(self._settings.idle_seconds, self._give_back_when_idle)

    def _give_back_when_idle(self) -> None:
        if not self._busy and not self._closed:
            assert self._loop is not None
            self._idle = None
            task = self._loop.create_task(self._give_back_idle())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _give_back_idle(self) -> None:
        async with self._lock:
            await self._kernel.give_back()

    def _between(self, work: Callable[[], Any]) -> Any:
        """Run something between questions, in the event loop of the kernel."""
        loop = self._loop
        if self._idle is not None and self._closed and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._idle.cancel)
        if loop is None or loop.is_closed() or not loop.is_running():
            return run_sync(work)
        if loop is _running_loop():
            raise SessionError("this would block the event loop of the session; use `async with` and `aclose`")
        return asyncio.run_coroutine_threadsafe(work(), loop).result()

    def _use(self, *, background: bool) -> None:
        if self._in_background is None:
            self._in_background = background
        elif background and not self._in_background:
            raise SessionError(f"session {self.id} runs in the event loop of its caller; use `await chat.aask(...)`")

    def _check_open(self) -> None:
        if self._closed:
            raise SessionError(f"session {self.id} is closed here; open it again by its id")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _listed(signature: Signature) -> str:
    return ", ".join(f"`{field.name}`" for field in signature.inputs)
