"""What is going on in a run, put together from its events. Every view is drawn from this, and none keeps more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ...history import CallRecord


class Event(Protocol):
    """Something that happened in a run."""

    @property
    def kind(self) -> str:
        """What happened."""

    @property
    def run_id(self) -> str:
        """In which run; a child run has its own."""

    @property
    def data(self) -> Mapping[str, Any]:
        """The details."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call from the code that has not been answered yet."""

    name: str
    preview: str
    since: float


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration that is over."""

    number: int
    code: str
    output: str
    success: bool
    seconds: float
    calls: tuple[CallRecord, ...] = ()
    reasoning: str | None = None

    @property
    def submitted(self) -> bool:
        """Whether it called SUBMIT, and that was accepted."""
        return any(call.name == "SUBMIT" and call.error is None for call in self.calls)


@dataclass
class RunState:
    """A run, as far as it has come."""

    clock: Callable[[], float] = time.monotonic
    run_id: str = ""
    phase: str = "starting"
    since: float = 0.0
    iteration: int = 0
    code: str = ""
    output: str = ""
    in_cell: bool = False
    """Whether there was code in the reply of the present iteration."""

    calls: dict[Any, Call] = field(default_factory=dict)
    questions: dict[Any, Any] = field(default_factory=dict)
    """Questions to models that have not been answered yet, and the calls that they are a part of."""

    records: list[CallRecord] = field(default_factory=list)
    """The calls of the present cell that have been answered."""

    budget: dict[str, Any] = field(default_factory=dict)
    budget_at: float = 0.0
    iterations: list[Iteration] = field(default_factory=list)
    reason: str = ""
    attempts: list[tuple[int, list[str]]] = field(default_factory=list)
    """Attempts at extraction: their numbers, and what is known to be wrong with them."""

    plans: int = 0
    """How many plans were compared so far; 0 in a run without plans."""

    plan_run: str = ""
    """The run of the plan that is watched."""

    ended: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __post_init__(self) -> None:
        self.since = self.budget_at = self.clock()

    def take(self, event: Event) -> bool:
        """Take in an event; False if it is of a child run, which shows only as a call of its parent."""
        with self.lock:
            if not self.run_id:
                self.run_id = event.run_id
            if event.run_id != self.run_id and not self._of_plan(event):
                return False
            handler = getattr(self, f"_{event.kind}", None)
            if handler is not None:
                handler(event.data)
            return True

    def _of_plan(self, event: Event) -> bool:
        """Whether an event is of the plan that is watched: of those that run at once, the one that began first."""
        if event.kind == "run_started":
            if self.plans and not self.plan_run and event.data.get("parent") == self.run_id:
                self.plan_run = event.run_id
            return False
        if event.run_id != self.plan_run:
            return False
        if event.kind in ("run_ended", "run_interrupted"):
            self.plan_run = ""
            self.calls.clear()
            return False
        return event.kind != "budget"  # that of the whole run is shown, not that of its plan

    def seconds_in_phase(self) -> float:
        """How long the present phase has taken so far."""
        return self.clock() - self.since

    def seconds(self) -> float:
        """How long the run has taken so far, as its ledger counts."""
        until = self.since if self.ended else self.clock()
        return float(self.budget.get("seconds") or 0.0) + until - self.budget_at

    def _enter(self, phase: str) -> None:
        self.phase, self.since = phase, self.clock()

    def _run_started(self, data: Mapping[str, Any]) -> None:
        limits = data.get("trigger")
        if isinstance(limits, Mapping):
            self.budget = {**limits, **self.budget}
        self.budget_at = self.clock()  # what came before, imports above all, is not the run's
        self._enter("starting")

    def _iteration_started(self, data: Mapping[str, Any]) -> None:
        self.iteration, self.in_cell = data["iteration"], False
        self._enter("asking")

    def _model_asked(self, data: Mapping[str, Any]) -> None:
        match data.get("role"):
            case "sub":  # the gauge moves while the cell runs; the next `budget` has the exact count
                self.questions[data.get("id")] = data.get("call")
                self.budget["llm_calls"] = (self.budget.get("llm_calls") or 0) + 1
            case "extraction":
                self._enter("extracting")
            case _:
                self._enter("asking")

    def _model_failed(self, data: Mapping[str, Any]) -> None:
        self.questions.pop(data.get("id"), None)

    def _model_answered(self, data: Mapping[str, Any]) -> None:
        self.questions.pop(data.get("id"), None)
        read, written = data.get("tokens_in") or 0, data.get("tokens_out") or 0
        for name, more in (("tokens", read + written), ("tokens_in", read), ("tokens_out", written)):
            self.budget[name] = (self.budget.get(name) or 0) + more
        if data.get("cost_usd") is not None:
            self.budget["cost_usd"] = (self.budget.get("cost_usd") or 0.0) + data["cost_usd"]
        if data.get("role") == "main":
            self._enter("reading")

    def _cell_started(self, data: Mapping[str, Any]) -> None:
        self.code, self.output, self.records, self.in_cell = data["code"], "", [], True
        self.questions.clear()  # those of a cell that was stopped are not answered any more
        self._enter("running")

    def _cell_ended(self, data: Mapping[str, Any]) -> None:
        self.output = data["output"]
        calls = tuple(self.records)
        self.iterations.append(
            Iteration(data["iteration"], self.code, self.output, data["success"], data["seconds"], calls)
        )
        self._enter("thinking")

    def _history(self, data: Mapping[str, Any]) -> None:
        if not self.in_cell:
            said = "\n".join(data.get("remarks") or ())
            self.iterations.append(Iteration(data["iteration"], "", said, False, 0.0))
        self.iterations[-1] = replace(self.iterations[-1], reasoning=data.get("reasoning"))

    def _call_started(self, data: Mapping[str, Any]) -> None:
        self.calls[data["id"]] = Call(data["name"], str(data.get("preview") or ""), self.clock())

    def _call_ended(self, data: Mapping[str, Any]) -> None:
        self.calls.pop(data["id"], None)
        self.records.append(CallRecord(data["name"], data["seconds"], data.get("error")))

    def _budget(self, data: Mapping[str, Any]) -> None:
        self.budget.update(data)
        self.budget_at = self.clock()

    def _trigger_fired(self, data: Mapping[str, Any]) -> None:
        self.reason = str(data["reason"])
        self._enter("extracting")

    def _extraction_attempt(self, data: Mapping[str, Any]) -> None:
        self.attempts.append((data["number"], [str(one["message"]) for one in data.get("problems") or ()]))
        self._enter("extracting")

    def _plans_compared(self, data: Mapping[str, Any]) -> None:
        self.plans += len(data["candidates"])

    def _plan_escalated(self, data: Mapping[str, Any]) -> None:
        self._enter("escalated")

    def _run_ended(self, data: Mapping[str, Any]) -> None:
        self.ended = True
        self.calls.clear()
        self._enter("ended")
