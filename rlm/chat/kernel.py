"""The kernel of a session: opened for its first question, given back when it is idle, and rebuilt from the journal.

A rebuilt kernel has run the recorded cells again. Their host calls get the recorded answers: no model is asked, no tool
is called. Variables that came out different are named.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sandbox
from sandbox import AsyncSession, CellResult, Variable
from sandbox.threads import threaded

from ..budgets import Ledger
from ..repl.host_calls import CallLog, CallReplay
from ..repl.kernels import EarlierCell
from ..repl.replay import RecordedCall
from .journal import INPUTS, Journal, QuestionRecord, Step
from .skippable import names_bound, only_reads, plain_names

DIFFERENT = (
    "The kernel was rebuilt by running the cells of earlier questions again. These variables came out different (time "
    "or randomness, for example): {names}. Look at them before you use them."
)
_PREVIEW_CHARS = 200
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class RecordedCell:
    """One cell of an earlier question."""

    question: int
    iteration: int
    code: str
    output: str
    ok: bool
    seconds: float
    limit: str | None
    step: int
    """The number of its step in the journal."""

    calls: tuple[RecordedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How a kernel was rebuilt."""

    cells: int
    """Cells that ran again."""

    skipped: int
    """Cells that were left out, because they had left nothing behind."""

    seconds: float
    different: tuple[str, ...]
    """Variables that came out different, are missing, or are new."""


@dataclass
class ChatKernel:
    """The kernel of one session, from question to question: the `KernelSource` of their runs."""

    journal: Journal
    restore: Callable[[QuestionRecord | None, Mapping[str, Any]], dict[str, Any]]
    """Gives recorded inputs the types of the question's signature again."""

    variables: dict[str, Variable] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    context: str | None = None
    rebuilt: Rebuilt | None = None
    """How the kernel was rebuilt last; None while that was not needed."""

    ledger: Ledger | None = None
    """The ledger of the present question: rebuilding a kernel takes none of its time."""

    keeps_cell: bool = False
    """Whether the cell that ended last is to run again when the kernel is rebuilt."""

    _session: AsyncSession | None = None
    _inputs: dict[str, Any] = field(default_factory=dict)
    """What the kernel has of the host's inputs."""

    _unrecorded: dict[tuple[int, str], Any] = field(default_factory=dict)
    """Inputs that the journal could not store, by step and name: they last as long as this object."""

    _wanted: dict[str, Any] = field(default_factory=dict)
    _current: int = 0
    _needs_rebuild: bool = False

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What code of this session may use, or could at the last question."""
        return {**self._inputs, **self._wanted}

    @property
    def earlier(self) -> list[EarlierCell]:
        """The cells of the questions before this one."""
        before = [question for question in self.journal.questions() if question.number < self._current]
        cells = [cell for question in before for cell in cells_of(self.journal, question)]
        return [EarlierCell(cell.code, cell.ok, cell.calls) for cell in cells]

    @property
    def alive(self) -> bool:
        """Whether there is a kernel."""
        return self._session is not None and self._session.alive

    def begin(self, question: int, ledger: Ledger, inputs: Mapping[str, Any], context: str | None) -> None:
        """Prepare for a question. `inputs` are all that code may use, those of the session among them."""
        self._current, self.ledger, self.context = question, ledger, context
        self._wanted = dict(inputs)

    async def open(self, options: Mapping[str, Any], calls: CallLog) -> tuple[AsyncSession, tuple[str, ...]]:
        """Return the session with the inputs and functions of the present question."""
        inputs = self._wanted
        hints: tuple[str, ...] = ()
        try:
            session = await self._attached(options["functions"], inputs)
            if session is None:
                session = self._session = await self._opened(options, inputs)
                if self._needs_rebuild or self._current > 1:
                    hints = await self._rebuild(session, calls)
                await self._update(session, inputs)
        except BaseException:
            await self.give_back()
            raise
        self._needs_rebuild = True
        return session, hints

    def add_cell(self, code: str, result: CellResult) -> None:
        """Take note of a cell that has to run again when the kernel is rebuilt."""
        self.keeps_cell = True
        if result.variables is not None:
            self.variables = dict(result.variables)

    async def release(self, session: AsyncSession) -> None:
        """Keep the kernel for the next question, without the functions of this one."""
        if not session.alive:
            await self.give_back()
            return
        try:
            await threaded(lambda: session.session.set_functions({}))
        except sandbox.SandboxError:
            await self.give_back()
        except BaseException:
            await self.give_back()
            raise

    async def give_back(self) -> None:
        """End the kernel. The next question rebuilds it."""
        session, self._session = self._session, None
        self._inputs = {}
        if session is not None:
            await session.close()

    async def run(self, code: str) -> CellResult | None:
        """Run a cell outside of a question; None where there is no kernel, which will run it when it is rebuilt."""
        if self._session is None or not self._session.alive:
            return None
        result = await self._session.run(code, variables=True)
        if result.variables is not None:
            self.variables = dict(result.variables)
        return result

    def keep_unrecorded(self, question: int, inputs: Mapping[str, Any]) -> None:
        """Keep inputs that the journal could not store, for as long as this process lives."""
        for step in self.journal.steps(question):
            if step.kind in INPUTS:
                for name, stored in step.data.items():
                    if stored["kind"] == "repr" and name in inputs:
                        self._unrecorded.setdefault((step.number, name), inputs[name])

    async def _attached(self, functions: Mapping[str, Any], inputs: Mapping[str, Any]) -> AsyncSession | None:
        """Return the session with other functions and inputs; None where its kernel has ended, for whatever reason."""
        session = self._session
        if session is not None and session.alive:
            try:
                await threaded(lambda: session.session.set_functions(functions))
                await self._update(session, inputs)
                return session
            except sandbox.SandboxError:  # it was killed just now
                if session.alive:
                    raise
        await self.give_back()
        return None

    async def _opened(self, options: Mapping[str, Any], inputs: Mapping[str, Any]) -> AsyncSession:
        self._inputs = {}
        if self._current <= 1 and not self._needs_rebuild:
            self._inputs = dict(inputs)
            return await AsyncSession(**{**options, "inputs": inputs, "protected": tuple(inputs)}).__aenter__()
        return await AsyncSession(**{**options, "inputs": {}, "protected": ()}).__aenter__()

    async def _update(self, session: AsyncSession, inputs: Mapping[str, Any]) -> None:
        """Send the inputs that the kernel does not have yet."""
        new = {name: value for name, value in inputs.items() if not self._has(name, value)}
        if new:
            await threaded(lambda: session.session.update(new, protected=tuple(new)))
            self._inputs |= new

    def _has(self, name: str, value: Any) -> bool:
        if name not in self._inputs:
            return False
        known = self._inputs[name]
        return known is value or (type(known) is type(value) and bool(known == value))

    async def _rebuild(self, session: AsyncSession, calls: CallLog) -> tuple[str, ...]:
        began = time.monotonic()
        before = [earlier for earlier in self.journal.questions() if earlier.number < self._current]
        cells = {cell.step: cell for earlier in before for cell in cells_of(self.journal, earlier)}
        bound = names_bound(cell.code for cell in cells.values())
        ran = skipped = 0
        variables: dict[str, Variable] | None = None
        for question in (None, *before):
            for step in self.journal.steps(0 if question is None else question.number):
                if step.kind in INPUTS:
                    await self._update(session, self.restored(question, step))
                    continue
                if (cell := cells.get(step.number)) is None:
                    continue
                known = () if variables is None else variables.values()
                plain = plain_names(((variable.name, variable.type, variable.has_value) for variable in known), bound)
                if only_reads(cell.code, plain | self._plain_inputs(), bound):
                    skipped += 1
                    continue
                ran += 1
                # A cell that reached a limit then gets as far as it did then.
                timeout = None if cell.limit is None else max(_LEAST_S, cell.seconds)
                calls.begin_cell(0, CallReplay(cell.calls))
                result = await session.run(cell.code, timeout=timeout, variables=True)
                variables = result.variables if result.variables is not None else variables
                if not session.alive:
                    raise sandbox.SessionClosed(
                        f"the session cannot be rebuilt: cell {cell.iteration} of question {cell.question} ended the "
                        f"kernel ({result.limit or result.death})"
                    )
        recorded = before[-1].variables if before else {}
        self.variables = dict(variables or {})
        different = _different(recorded, self.variables, self._inputs)
        seconds = time.monotonic() - began
        self.rebuilt = Rebuilt(ran, skipped, seconds, different)
        if self.ledger is not None:
            self.ledger.excuse(seconds)
        return (DIFFERENT.format(names=", ".join(different)),) if different else ()

    def restored(self, question: QuestionRecord | None, step: Step) -> dict[str, Any]:
        """Return recorded inputs as they were. Raise `InputNotRecorded` for one that only another process had."""
        kept = {
            name: self._unrecorded[step.number, name] for name in step.data if (step.number, name) in self._unrecorded
        }
        stored = {name: value for name, value in step.data.items() if name not in kept}
        values = self.journal.restore_inputs(replace(step, data=stored))
        return {**self.restore(question, values), **kept}

    def _plain_inputs(self) -> frozenset[str]:
        return frozenset(name for name, value in self._inputs.items() if isinstance(value, str | bytes | int | float))


def cells_of(journal: Journal, question: QuestionRecord) -> list[RecordedCell]:
    """Return the cells of a question whose kernel lived on, with the answers to their host calls."""
    calls: dict[int, list[RecordedCall]] = {}
    cells: list[RecordedCell] = []
    for step in journal.steps(question.number):
        if step.run_id not in (question.run_id, "") or step.kind in INPUTS:
            continue
        data = step.data
        if step.kind == "call":
            calls.setdefault(step.iteration, []).append(recorded_call(data))
        elif step.kind == "cell" and data["kept"]:
            known = tuple(calls.get(step.iteration, ()))
            about = (data["code"], data["output"], data["ok"], data["seconds"], data["limit"])
            cells.append(RecordedCell(question.number, step.iteration, *about, step.number, known))
    return cells


def recorded_call(data: Mapping[str, Any]) -> RecordedCall:
    """Return a host call from its step."""
    answer = None if data["answer"] is None or data["error"] is not None else json.loads(data["answer"])
    return RecordedCall(data["name"], data["arguments"], answer, data["error"], data["stopped"])


def describe(variable: Variable) -> dict[str, Any]:
    """Return what is recorded of a variable, to be compared with one in a rebuilt kernel."""
    described: dict[str, Any] = {
        "type": variable.type,
        "size": list(variable.size) if isinstance(variable.size, tuple) else variable.size,
        "preview": variable.preview[:_PREVIEW_CHARS],
    }
    if variable.has_value:
        text = json.dumps(variable.value, sort_keys=True, default=repr)
        described["hash"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return described


def _different(
    recorded: Mapping[str, Mapping[str, Any]], now: Mapping[str, Variable], inputs: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the variables that are not as they are recorded."""
    found = {name: describe(variable) for name, variable in now.items() if name not in inputs}
    names = [*recorded, *(name for name in found if name not in recorded)]
    same = ("type", "size", "preview", "hash")
    return tuple(
        name
        for name in names
        if name not in inputs
        and (
            name not in found
            or name not in recorded
            or any(recorded[name].get(key) != found[name].get(key) for key in same)
        )
    )
