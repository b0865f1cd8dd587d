"""The state of a run, put together from its events. Every view is drawn from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...budgets import FallbackTrigger
from ...events import (
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    Event,
    ExtractionAttempted,
    HistoryAppended,
    IterationStarted,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    PlanEscalated,
    PlansCompared,
    RunEnded,
    RunInterrupted,
    RunStarted,
    TriggerFired,
)
from ...history import CallRecord

_LIMITS = ("max_iterations", "max_llm_calls", "max_duration", "max_tokens", "max_cost_usd")


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
class Used:
    """What a run has used so far."""

    llm_calls: int = 0
    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


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

    calls: dict[int, Call] = field(default_factory=dict)
    questions: dict[int, int | None] = field(default_factory=dict)
    """Questions to models that have not been answered yet, and the calls that they are a part of."""

    records: list[CallRecord] = field(default_factory=list)
    """The calls of the present cell that have been answered."""

    limits: FallbackTrigger = field(default_factory=FallbackTrigger)
    usage: Used = field(default_factory=lambda: Used())
    usage_at: float = 0.0
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
        self.since = self.usage_at = self.clock()

    def take(self, event: Event) -> bool:
        """Take in an event; False if it is of a child run, which shows only as a call of its parent."""
        with self.lock:
            if not self.run_id:
                self.run_id = event.run_id
            if event.run_id != self.run_id and not self._of_plan(event):
                return False
            self._update(event)
            return True

    def _of_plan(self, event: Event) -> bool:
        """Whether an event is of the plan that is watched: of those that run at once, the one that began first."""
        if isinstance(event, RunStarted):
            if self.plans and not self.plan_run and event.parent == self.run_id:
                self.plan_run = event.run_id
            return False
        if event.run_id != self.plan_run:
            return False
        if isinstance(event, RunEnded | RunInterrupted):
            self.plan_run = ""
            self.calls.clear()
            return False
        return not isinstance(event, BudgetUsed)  # that of the whole run is shown, not that of its plan

    def seconds_in_phase(self) -> float:
        """How long the present phase has taken so far."""
        return self.clock() - self.since

    def seconds(self) -> float:
        """How long the run has taken so far, as its ledger counts."""
        until = self.since if self.ended else self.clock()
        return self.usage.seconds + until - self.usage_at

    def _enter(self, phase: str) -> None:
        self.phase, self.since = phase, self.clock()

    def _update(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.limits = event.trigger
                self.usage_at = self.clock()  # what came before, imports above all, is not the run's
                self._enter("starting")
            case IterationStarted():
                self.iteration, self.in_cell = event.iteration, False
                self._enter("asking")
            case ModelAsked(role="sub"):  # the gauge moves while the cell runs; the next `BudgetUsed` is exact
                self.questions[event.id] = event.call
                self.usage.llm_calls += 1
            case ModelAsked():
                self._enter("extracting" if event.role == "extraction" else "asking")
            case ModelFailed():
                self.questions.pop(event.id, None)
            case ModelAnswered():
                self._count(event)
            case CellStarted():
                self.code, self.output, self.records, self.in_cell = event.code, "", [], True
                self.questions.clear()  # those of a cell that was stopped are not answered any more
                self._enter("running")
            case CellEnded():
                self.output = event.output
                about = (event.iteration, self.code, event.output, event.success, event.seconds)
                self.iterations.append(Iteration(*about, tuple(self.records)))
                self._enter("thinking")
            case HistoryAppended():
                if not self.in_cell:
                    self.iterations.append(Iteration(event.iteration, "", "\n".join(event.hints), False, 0.0))
                self.iterations[-1] = replace(self.iterations[-1], reasoning=event.reasoning)
            case CallStarted():
                self.calls[event.id] = Call(event.name, event.preview, self.clock())
            case CallEnded():
                self.calls.pop(event.id, None)
                self.records.append(CallRecord(event.name, event.seconds, event.error))
            case BudgetUsed():
                self.usage = Used(
                    event.llm_calls, event.tokens, event.tokens_in, event.tokens_out, event.cost_usd, event.seconds
                )
                limits = {name: getattr(event, name) for name in _LIMITS}
                self.limits = replace(self.limits, **{name: one for name, one in limits.items() if one is not None})
                self.usage_at = self.clock()
            case TriggerFired():
                self.reason = str(event.reason)
                self._enter("extracting")
            case ExtractionAttempted():
                self.attempts.append((event.number, [problem.message for problem in event.problems]))
                self._enter("extracting")
            case PlansCompared():
                self.plans += len(event.candidates)
            case PlanEscalated():
                self._enter("escalated")
            case RunEnded():
                self.ended = True
                self.calls.clear()
                self._enter("ended")
            case _:
                pass

    def _count(self, event: ModelAnswered) -> None:
        self.questions.pop(event.id, None)
        used = self.usage
        used.tokens_in += event.tokens_in
        used.tokens_out += event.tokens_out
        used.tokens += event.tokens_in + event.tokens_out
        if event.cost_usd is not None:
            used.cost_usd = (used.cost_usd or 0.0) + event.cost_usd
        if event.role == "main":
            self._enter("reading")
