"""The state of a run, put together from its events. Every view is drawn from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from ...budgets import FallbackTrigger
from ...events import (
    ApprovalAnswered,
    ApprovalRequested,
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    ConversationCompacted,
    EscalationAnswered,
    Event,
    ExtractionAttempted,
    FilesHashed,
    FilesWritten,
    HistoryAppended,
    ItemsAnswered,
    IterationStarted,
    MapStarted,
    ModeChosen,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    ModelWaiting,
    OperatorAwaited,
    PlanAnswered,
    PlanEscalated,
    PlanRejected,
    PlansCompared,
    PlanSelected,
    ReplayDiffered,
    RunEnded,
    RunInterrupted,
    RunStarted,
    TiersUsed,
    TriggerFired,
    VariablesChanged,
)
from ...history import CallRecord
from ..console import said_instead_of_code

_LIMITS = ("max_iterations", "max_llm_calls", "max_duration", "max_tokens", "max_cost_usd")


@dataclass(frozen=True, slots=True)
class Call:
    """A call from the code that has not been answered yet."""

    name: str
    preview: str
    since: float


@dataclass(frozen=True, slots=True)
class Iteration:
    """A finished iteration."""

    number: int
    code: str
    output: str
    success: bool
    seconds: float
    calls: tuple[CallRecord, ...] = ()

    @property
    def submitted(self) -> bool:
        """Whether it called SUBMIT, and that was accepted."""
        return any(call.name == "SUBMIT" and call.error is None for call in self.calls)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait for a provider."""

    model: str
    reason: str
    until: float


@dataclass
class Used:
    """The usage of a run so far."""

    llm_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


@dataclass
class RunState:
    """The state of a run at one moment."""

    clock: Callable[[], float] = time.monotonic
    run_id: str = ""
    phase: str = "starting"
    since: float = 0.0
    iteration: int = 0
    code: str = ""
    in_cell: bool = False
    """Whether the reply of the present iteration has code."""

    calls: dict[int, Call] = field(default_factory=dict)
    model_calls: dict[int, int | None] = field(default_factory=dict)
    """Calls to models that are not answered yet, and the host calls that they are part of."""

    waiting: Waiting | None = None
    """The last wait for a provider, which may be over."""

    records: list[CallRecord] = field(default_factory=list)
    """The answered calls of the present cell."""

    limits: FallbackTrigger = field(default_factory=FallbackTrigger)
    usage: Used = field(default_factory=lambda: Used())
    usage_at: float = 0.0
    iterations: list[Iteration] = field(default_factory=list)
    reason: str = ""
    attempts: list[tuple[int, list[str]]] = field(default_factory=list)
    """Extraction attempts: their numbers and problems."""

    plans: int = 0
    """How many plans were compared so far; 0 in a run without plans."""

    plan_run: str = ""
    """The run of the plan that is shown."""

    mode: str = ""
    """The mode that was decided, and why."""

    items: tuple[int, int] = (0, 0)
    """How many items of a map are answered, and of how many."""

    fifths: int = 0
    """The last part of a map that a view without a terminal has shown."""

    ended: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __post_init__(self) -> None:
        self.since = self.usage_at = self.clock()

    def take(self, event: Event) -> bool:
        """Update the state by an event. Return False if it is of a child run, which shows only as a call."""
        with self.lock:
            if not self.run_id:
                self.run_id = event.run_id
            if event.run_id != self.run_id and not self._of_plan(event):
                return False
            self._update(event)
            return True

    def _of_plan(self, event: Event) -> bool:
        """Return whether an event is of the plan that is shown: of those that run at once, the first one started."""
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
        return not isinstance(event, BudgetUsed)  # the usage of the whole run is shown

    def seconds_in_phase(self) -> float:
        """Return the seconds since the present phase began."""
        return self.clock() - self.since

    def current_wait(self) -> Waiting | None:
        """Return the wait for a provider that is not over."""
        return self.waiting if self.waiting is not None and self.waiting.until > self.clock() else None

    def seconds(self) -> float:
        """Return the seconds of the run so far, as its ledger counts them."""
        until = self.since if self.ended else self.clock()
        return self.usage.seconds + until - self.usage_at

    def _enter(self, phase: str) -> None:
        self.phase, self.since = phase, self.clock()

    def _update(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.limits = event.trigger
                self.usage_at = self.clock()  # imports before the start do not count
                self._enter("starting")
            case IterationStarted():
                self.iteration, self.in_cell = event.iteration, False
                self._enter("asking")
            case ModelAsked(role="sub"):  # the gauge moves while the cell runs; the next `BudgetUsed` is exact
                self.model_calls[event.id] = event.call
                self.usage.llm_calls += 1
            case ModelAsked():
                self._enter("extracting" if event.role == "extraction" else "asking")
            case ModelWaiting():
                self.waiting = Waiting(event.model, event.reason, self.clock() + event.seconds)
            case ModelFailed():
                self.model_calls.pop(event.id, None)
            case ModelAnswered():
                self._count(event)
            case CellStarted():
                self.code, self.records, self.in_cell = event.code, [], True
                self.model_calls.clear()  # those of a stopped cell are never answered
                self._enter("running")
            case CellEnded():
                facts = (event.iteration, self.code, event.output, event.success, event.seconds)
                self.iterations.append(Iteration(*facts, tuple(self.records)))
                self._enter("thinking")
            case HistoryAppended() if not self.in_cell:
                self.iterations.append(
                    Iteration(event.iteration, "", said_instead_of_code(event.reasoning), False, 0.0)
                )
            case CallStarted():
                self.calls[event.id] = Call(event.name, event.preview, self.clock())
            case ModeChosen():
                self.mode = f"{event.mode}: {event.why}"
            case MapStarted():
                self.items, self.fifths = (0, event.items), 0
            case ItemsAnswered():
                self.items = (event.done, event.total)
            case CallEnded():
                self.calls.pop(event.id, None)
                self.records.append(CallRecord(event.name, event.seconds, event.error))
            case BudgetUsed():
                self.usage = Used(event.llm_calls, event.tokens, event.cost_usd, event.seconds)
                limits = {name: getattr(event, name) for name in _LIMITS}
                self.limits = replace(
                    self.limits, **{name: limit for name, limit in limits.items() if limit is not None}
                )
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
            case (
                HistoryAppended()
                | VariablesChanged()
                | ConversationCompacted()
                | ReplayDiffered()
                | FilesHashed()
                | FilesWritten()
                | TiersUsed()
                | RunInterrupted()
                | PlanSelected()
                | PlanRejected()
                | OperatorAwaited()
                | EscalationAnswered()
                | PlanAnswered()
                | ApprovalRequested()
                | ApprovalAnswered()
            ):
                pass  # not in the state
            case _ if TYPE_CHECKING:  # mypy finds a kind that is not listed above; at run time it changes nothing
                assert_never(event)

    def _count(self, event: ModelAnswered) -> None:
        self.model_calls.pop(event.id, None)
        used = self.usage
        used.tokens += event.tokens_in + event.tokens_out
        if event.cost_usd is not None:
            used.cost_usd = (used.cost_usd or 0.0) + event.cost_usd
        if event.role == "main":
            self._enter("reading")
