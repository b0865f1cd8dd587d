"""The loop of one question of a session: it waits for its turn, runs as any run does, and is recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from ..budgets import Ledger
from ..events import Observer, fan_out, ignore
from ..json_values import jsonable, preview
from ..repl.config import RunConfig
from ..repl.hints.code_facts import names_read
from ..repl.loop import RunLoop, new_run_id
from ..repl.replay import RecordedRun
from ..results import ExecutionResult, Failed, FailureCause
from ..signatures import Signature
from ..signatures.validation import InvalidInputs, Problem
from .journal import QuestionRecord
from .kernel import describe
from .prompt import before_question
from .recording import QuestionRecorder, signature_info

if TYPE_CHECKING:
    from .chat import Chat

_ASKED_CHARS = 500
_WHOLE_CHARS = 4_000
"""A question of so many characters is in the prompt. A longer one is a variable only, as every input is."""


class QuestionLoop:
    """The loop of one question: waits for its turn, then runs, and is recorded."""

    def __init__(
        self,
        chat: Chat,
        signature: Signature,
        inputs: Mapping[str, Any],
        observe: Observer,
        record: QuestionRecord | None = None,
        past: RecordedRun | None = None,
    ) -> None:
        self.id = new_run_id()
        self._chat, self._signature, self._given = chat, signature, dict(inputs)
        self._observe, self._record, self._past = observe, record, past
        self._loop: RunLoop | None = None
        self._config(observe).check_inputs(self._values())

    async def run(self) -> ExecutionResult[Any]:
        """Run to the ending, when the questions before are answered."""
        async with self._chat._turn():
            return await self._run()

    def partial_result(self) -> Failed:
        """Return what there is of an answer now."""
        if self._loop is not None:
            return self._loop.partial_result()
        return Failed("the question has not begun", cause=FailureCause("interrupted"), run_id=self.id)

    def _config(self, observe: Observer, **changes: Any) -> RunConfig:
        config = self._chat._configure(observe)
        if self._signature is not self._chat.signature:
            changes |= {"checks": (), "map": None}  # they are about other outputs
        return replace(config, signature=self._signature, **changes)

    def _values(self) -> dict[str, Any]:
        known = {field.name for field in self._signature.inputs}
        return {name: value for name, value in self._chat._inputs.items() if name in known} | self._given

    async def _run(self) -> ExecutionResult[Any]:
        chat, journal, kernel = self._chat, self._chat._journal, self._chat._kernel
        reason = chat._total.should_trigger()
        if reason is not None:
            return Failed(f"the budget of the session is used up: {reason}", run_id=self.id)
        values = self._config(ignore).check_inputs(self._values())
        number = self._begin(values)
        before = [question for question in chat.questions if question.number < number]
        if self._past is not None or (before and before[-1].ending is None):
            await kernel.give_back()
        spent = None if self._past is None else self._past.usage
        recorder = QuestionRecorder(journal, kernel, number, self.id)
        task = {"session": chat.id, "question": number}
        config = self._config(fan_out(self._observe, recorder), kernels=kernel)
        config = replace(config, task={**(config.task or {}), **task})
        ledger = chat._total.child(config.trigger, spent=spent)
        ledger.depth = 0  # the budget of the session is above its runs, and no run itself
        context = before_question(len(before) + 1, before, chat._inputs, values)
        kernel.begin(number, ledger, chat._inputs | values, context)
        asked = values.get(chat.asks)
        kernel.shown = frozenset({chat.asks} if isinstance(asked, str) and len(asked) <= _WHOLE_CHARS else ())
        self._loop = RunLoop(config, values, ledger=ledger, past=self._past, run_id=self.id)
        result: ExecutionResult[Any] | None = None
        interrupted = False
        try:
            result = await self._loop.run()
            return result
        except asyncio.CancelledError:
            interrupted = True
            raise
        finally:
            if result is not None or interrupted:
                self._end(number, before, ledger, result)

    def _begin(self, values: Mapping[str, Any]) -> int:
        """Record the question with the inputs that are new, before anything is run."""
        chat, journal = self._chat, self._chat._journal
        if self._record is not None:
            journal.update_question(self._record.number, run=self.id, ending=None, ended=None)
            return self._record.number
        asked = {name: _shown(values[name]) for name in self._given}
        number = journal.begin_question(self.id, signature_info(self._signature), asked)
        own = {name: values[name] for name in values if name in self._given or name not in chat._inputs}
        chat._record_inputs(number, own, "asked")
        return number

    def _end(
        self, number: int, before: list[QuestionRecord], ledger: Ledger, result: ExecutionResult[Any] | None
    ) -> None:
        chat, journal = self._chat, self._chat._journal
        loop = self._loop
        assert loop is not None
        codes = [entry.code for entry in loop.history]
        chat._kernel.read |= frozenset(name for code in codes for name in names_read(code, chat._inputs))
        earlier = before[-1].variables if before else {}
        hidden = chat._kernel._wanted.keys() | chat._inputs.keys()
        variables = {
            name: about
            for name, variable in chat._kernel.variables.items()
            if name not in hidden
            for about in [describe(variable)]
        }
        changed = {
            name
            for entry in loop.history
            for name in (*entry.variables_changed.added, *entry.variables_changed.changed)
        }
        for name, about in variables.items():
            known = earlier.get(name)
            about["made"] = number if known is None else known["made"]
            about["changed"] = number if known is None or name in changed else known["changed"]
            used = any(names_read(code, (name,)) for code in codes)
            about["used"] = number if known is None or used else known["used"]
        usage = ledger.usage() if result is None else result.usage
        try:
            journal.update_question(
                number,
                ended=time.time(),
                ending="interrupted" if result is None else result.status,
                result=None if result is None else {**result.to_dict(), "history": []},
                usage=usage.to_dict(),
                variables=variables,
            )
            journal.forget_other_runs(number, self.id)
        except Exception as error:  # a full disk, for example: there is an answer all the same
            journal.problem = f"the session is no longer recorded: {error}"


def plain_inputs(signature: Signature, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as code gets them: those of the signature by their types, others as JSON values."""
    fields = tuple(field for field in signature.inputs if field.name in inputs)
    part = Signature(signature.name, signature.instructions, fields, signature.outputs)
    typed = part.plain_inputs({field.name: inputs[field.name] for field in fields})
    others: dict[str, Any] = {}
    for name, value in inputs.items():
        if name in typed:
            continue
        try:
            others[name] = value if isinstance(value, bytes) else jsonable(value)
        except (ValueError, TypeError, RecursionError):
            problem = Problem(f"/{name}", "text, bytes, or a value that JSON can carry", type(value).__name__)
            raise InvalidInputs("these inputs cannot be sent to the kernel:", [problem]) from None
    return {name: typed[name] if name in typed else others[name] for name in inputs}


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value[:_ASKED_CHARS]
    return preview(to_jsonable_python(value, fallback=repr, bytes_mode="base64"), _ASKED_CHARS)
