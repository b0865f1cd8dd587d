"""The observer that writes the run of a question into the journal, event by event, before the run goes on."""

from __future__ import annotations

import sqlite3
from typing import Any

from ..events import (
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    Event,
    ModelAnswered,
)
from .journal import Journal
from .kernel import ChatKernel


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
