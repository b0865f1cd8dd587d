"""The run of a question in the journal: written event by event before the run goes on, and read back."""

from __future__ import annotations

import dataclasses
import sqlite3
from typing import Any

from ..budgets import Usage
from ..events import (
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    Event,
    ModelAnswered,
)
from ..repl.replay import RecordedCall, RecordedIteration, RecordedRun
from ..signatures import Signature
from .journal import Journal, QuestionRecord
from .kernel import ChatKernel, recorded_call


class QuestionRecorder:
    """Observes the run of one question."""

    def __init__(self, journal: Journal, kernel: ChatKernel, question: int, run_id: str) -> None:
        self._journal, self._kernel = journal, kernel
        self._question, self._run = question, run_id
        self._arguments: dict[int, str] = {}
        self._code = ""

    def __call__(self, event: Event) -> None:
        """Write what is needed to run the cells again, and to go on with the run."""
        if event.run_id != self._run:
            return  # a child run: its answer is the host call's
        match event:
            case ModelAnswered(role="main", iteration=int(iteration), text=text):
                self._add(iteration, "reply", {"reply": text})
            case CallStarted():
                self._arguments[event.id] = event.arguments
            case CallEnded():
                self._add(event.iteration, "call", self._call(event))
            case CellStarted():
                self._code, self._kernel.keeps_cell = event.code, False
            case CellEnded():
                cell: dict[str, Any] = {"code": self._code, "output": event.output, "ok": event.success}
                cell |= {"seconds": event.seconds, "limit": event.limit, "kept": self._kernel.keeps_cell}
                self._add(event.iteration, "cell", cell)
            case BudgetUsed():
                usage = {"tokens_in": event.tokens_in, "tokens_out": event.tokens_out, "cost_usd": event.cost_usd}
                usage |= {"seconds": event.seconds, "llm_calls": event.llm_calls}
                self._write(lambda: self._journal.update_question(self._question, usage=usage))

    def _call(self, event: CallEnded) -> dict[str, Any]:
        return {
            "name": event.name,
            "arguments": self._arguments.pop(event.id, "[[], {}]"),
            "answer": event.answer,
            "error": event.error,
            "stopped": event.name == "SUBMIT" and event.error is None,  # an accepted SUBMIT ends its cell
        }

    def _add(self, iteration: int, kind: str, data: dict[str, Any]) -> None:
        self._write(lambda: self._journal.add_step(self._question, self._run, iteration, kind, data))

    def _write(self, write: Any) -> None:
        try:
            write()
        except sqlite3.Error as error:
            self._journal.problem = f"the session is no longer recorded: {error}"


def signature_info(signature: Signature) -> dict[str, str]:
    """Return a signature as the journal has it."""
    sides = [
        ", ".join(f"{field.name}: {field.type_text}" for field in side)
        for side in (signature.inputs, signature.outputs)
    ]
    return {"name": signature.name, "instructions": signature.instructions, "text": " -> ".join(sides)}


def spent(journal: Journal) -> Usage:
    """Return what the questions of a session have used."""
    known = {counter.name for counter in dataclasses.fields(Usage)}
    used = [
        Usage.from_dict({name: value for name, value in (question.usage or {}).items() if name in known})
        for question in journal.questions(undone=True)
    ]
    costs = [usage.cost_usd for usage in used if usage.cost_usd is not None]
    numbers = {name: sum(getattr(usage, name) for usage in used) for name in known - {"cost_usd"}}
    return Usage(**numbers, cost_usd=sum(costs) if costs else None)


def recorded_run(journal: Journal, question: QuestionRecord) -> RecordedRun:
    """Return the iterations of a question that was cut off; of several runs of it, those of the longest."""
    runs: dict[str, list[Any]] = {}
    for step in journal.steps(question.number):
        if step.run_id:
            runs.setdefault(step.run_id, []).append(step)
    steps = max(runs.values(), key=len, default=[])
    replies: dict[int, str] = {}
    calls: dict[int, list[RecordedCall]] = {}
    outputs: dict[int, str] = {}
    for step in steps:
        if step.kind == "reply":
            replies[step.iteration] = step.data["reply"]
        elif step.kind == "call":
            calls.setdefault(step.iteration, []).append(recorded_call(step.data))
        elif step.kind == "cell":
            outputs[step.iteration] = step.data["output"]
    iterations = [
        RecordedIteration(reply, tuple(calls.get(number, ())), outputs.get(number)) for number, reply in replies.items()
    ]
    known = {counter.name for counter in dataclasses.fields(Usage)}
    usage = Usage.from_dict({name: value for name, value in (question.usage or {}).items() if name in known})
    return RecordedRun(question.run_id, tuple(iterations), usage)
