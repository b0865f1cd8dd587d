"""Run events: one frozen dataclass for each thing that happens in a run. The public interface for whoever watches runs.

In the order of a run: `RunStarted`; for each iteration `IterationStarted`, `ModelAsked`, `ModelAnswered` (or
`ModelFailed`), `CellStarted`, `CallStarted` and `CallEnded` for each host call, `CellEnded`, `VariablesChanged`,
`HistoryAppended`, `BudgetUsed`; then, where a limit was reached, `TriggerFired`, and for each attempt `ModelAsked`,
`ModelAnswered` and `ExtractionAttempted`; `TiersUsed`, where there were typed questions; `RunEnded`. In between:
`ModelWaiting` for each wait for a provider, `ConversationCompacted`, `ReplayDiffered`, `RunInterrupted`; `ModeChosen`
before the first iteration of a run with a mode; `MapStarted` and `ItemsAnswered` for each `llm_map`; `FilesHashed`
where inputs are files; `ApprovalRequested` and `ApprovalAnswered` where a cell waits for a person. A child run has
events of its own, under its own run id.

A run with plans emits `PlansCompared`, `PlanSelected`, `PlanRejected`, `PlanEscalated`, `OperatorAwaited`,
`EscalationAnswered` and `PlanAnswered`; the runs of its plans are its children.

An observer is a function of one event. It cannot change the run: what it raises is logged.

    def observe(event: rlm.events.Event) -> None:
        match event:
            case rlm.events.CellEnded(iteration=number, output=output):
                print(number, output)
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_args

from .budgets import FallbackReason, FallbackTrigger, Usage

if TYPE_CHECKING:
    from .results import ExecutionResult

_logger = logging.getLogger("rlm")
_NEVER = object()
_OPTIONAL = {"optional": True}
"""Metadata of a field that is not recorded while it has its default."""


@dataclass(frozen=True, slots=True)
class BaseEvent:
    """What all events have."""

    kind: ClassVar[str]
    """The name under which the event is recorded; the same in every version."""

    run_id: str
    time: float = field(default_factory=time.time, kw_only=True)
    """When it happened, in seconds since 1970."""

    @property
    def data(self) -> dict[str, Any]:
        """The fields of this kind as they are recorded: plain values. Optional fields at their default are left out.

        The inputs of `RunStarted` are the live values.
        """
        return _recorded(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain data: `kind`, `run_id`, `time`, and the fields of its kind."""
        return {"kind": self.kind, "run_id": self.run_id, "time": self.time, **self.data}


# The run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """The signature of a run, in plain data."""

    name: str
    instructions: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    text: str
    schema: Mapping[str, Any]
    """The JSON schema of the outputs."""


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The models of a run by name."""

    main: str
    sub: str
    extraction: str


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a run is made, other than its models and its budget."""

    isolation: str
    policy: str
    depth: int
    """How deep child runs may nest."""

    limits: Mapping[str, Any]
    checks: Sequence[str]
    tools: Sequence[str]
    guidance: str | None


@dataclass(frozen=True, slots=True)
class RunStarted(BaseEvent):
    """A run has started."""

    kind = "run_started"

    signature: SignatureInfo
    inputs: Mapping[str, Any]
    """The live values."""

    depth: int
    """0 for a run that nobody's code asked for; 1 for its child runs."""

    models: ModelNames
    trigger: FallbackTrigger
    settings: RunSettings
    task: Mapping[str, Any] | None
    """Where the run comes from: `{"path": ...}` for a task file, `{"plan": ...}` for a plan."""

    parent: str | None
    """The run that this one is a child of."""

    parent_call: int | None = None
    """The host call of the parent that asked for it."""

    resumed_from: str | None = None
    spent: Usage | None = field(default=None, metadata=_OPTIONAL)
    """What the run that is resumed had used."""

    loop_id: str | None = field(default=None, metadata=_OPTIONAL)
    """The id of the first run of this loop, for a run with plans."""

    baseline: str | None = field(default=None, metadata=_OPTIONAL)
    """The name of the baseline, for a run without a REPL."""


@dataclass(frozen=True, slots=True)
class RunEnded(BaseEvent):
    """A run has ended with a result."""

    kind = "run_ended"

    result: ExecutionResult[Any]

    @property
    def ending(self) -> str:
        """`Submitted`, `Extracted` or `Failed`."""
        return type(self.result).__name__

    @property
    def data(self) -> dict[str, Any]:
        """As `BaseEvent.data`, with the ending, its cause and its reason beside the result."""
        result = self.result
        cause, reason = getattr(result, "cause", None), getattr(result, "reason", None)
        return {
            "ending": self.ending,
            "confidence": result.confidence,
            "cause": None if cause is None else str(cause),
            "reason": None if reason is None else str(reason),
            "result": result.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class RunInterrupted(BaseEvent):
    """A run was cancelled before it had a result. It can be resumed."""

    kind = "run_interrupted"


@dataclass(frozen=True, slots=True)
class ModeChosen(BaseEvent):
    """The mode of a run was decided, which was to be `auto`, `direct` or `map`."""

    kind = "mode_chosen"

    mode: str
    """`repl`, `direct` or `map`."""

    why: str
    wanted: str
    """The mode that the run was to have."""

    asked: bool = field(default=False, metadata=_OPTIONAL)
    """Whether the main model was asked."""

    plan: Mapping[str, Any] | None = field(default=None, metadata=_OPTIONAL)
    """The plan of the map."""


# The iterations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IterationStarted(BaseEvent):
    """The main model is about to be asked for its next reply."""

    kind = "iteration_started"

    iteration: int


@dataclass(frozen=True, slots=True)
class ModelAsked(BaseEvent):
    """A model call has started."""

    kind = "model_asked"

    id: int
    """Number of the model call within its run. `ModelAnswered` or `ModelFailed` carries it, too."""

    role: str
    """`main`, `sub`, `extraction`, or a role of planning."""

    model: str
    turns: Sequence[tuple[str, str]]
    """Role and text of each message that is new since the last call of this conversation."""

    iteration: int | None
    retained: int
    """How many messages of the conversation are the same as in the call before; `turns` follow on these."""

    system: str | None
    call: int | None
    """The host call on whose behalf the model is asked."""

    step: str | None = field(default=None, metadata=_OPTIONAL)
    """The step of an adapter that asks: `tier1`, say."""

    @property
    def data(self) -> dict[str, Any]:
        """As `BaseEvent.data`; `retained` is recorded as `kept`."""
        data = _recorded(self)
        return {"kept" if name == "retained" else name: value for name, value in data.items()}


@dataclass(frozen=True, slots=True)
class ModelWaiting(BaseEvent):
    """A model call waits for the provider: for a rate limit, or to retry a request that failed."""

    kind = "model_waiting"

    id: int | None
    """Number of the model call; None for a call that an adapter makes."""

    role: str
    model: str
    reason: str
    seconds: float
    """How long the wait is expected to take. It does not count as time of the run."""


@dataclass(frozen=True, slots=True)
class ModelAnswered(BaseEvent):
    """A model call has ended with an answer."""

    kind = "model_answered"

    id: int
    iteration: int | None
    text: str
    role: str | None = None
    truncated: bool = False
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    cached: bool = field(default=False, metadata=_OPTIONAL)
    past: bool = field(default=False, metadata=_OPTIONAL)
    """Whether no model was asked: the answer is on record, or is the first cell of a mode."""


@dataclass(frozen=True, slots=True)
class ModelFailed(BaseEvent):
    """A model call has ended without an answer."""

    kind = "model_failed"

    id: int
    role: str
    error_kind: str
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CellStarted(BaseEvent):
    """The kernel is about to run a cell."""

    kind = "cell_started"

    iteration: int
    code: str


@dataclass(frozen=True, slots=True)
class CellError:
    """The exception that ended a cell."""

    name: str
    message: str
    line: int | None


@dataclass(frozen=True, slots=True)
class CellEnded(BaseEvent):
    """A cell has ended."""

    kind = "cell_ended"

    iteration: int
    output: str
    success: bool
    seconds: float
    error: CellError | None
    limit: str | None
    """The limit that the cell reached, in words."""


@dataclass(frozen=True, slots=True)
class CallStarted(BaseEvent):
    """Code has called a function of the host."""

    kind = "call_started"

    id: int
    """Number of the host call within its run."""

    name: str
    iteration: int
    arguments: str
    """The positional and the keyword arguments, as JSON text."""

    preview: str


@dataclass(frozen=True, slots=True)
class CallEnded(BaseEvent):
    """A function of the host has returned or raised."""

    kind = "call_ended"

    id: int
    name: str
    iteration: int
    seconds: float
    error: str | None
    answer: str | None
    """The answer as JSON text."""


@dataclass(frozen=True, slots=True)
class MapStarted(BaseEvent):
    """A map over items is about to ask its questions."""

    kind = "map_started"

    call: int | None
    """The host call that it is a part of."""

    digest: str
    """Identifies the items and the question, also in a run that resumes this one."""

    question: str
    items: int
    """How many items have to be asked about: those with an answer on record are left out."""

    model_calls: int
    tokens: int
    """About how many tokens that takes."""

    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ItemsAnswered(BaseEvent):
    """Items of a map have their answers, or have failed. Each item is answered once."""

    kind = "items_answered"

    call: int | None
    digest: str
    answers: Mapping[str, Any]
    """The answers by index."""

    errors: Mapping[str, str] = field(default_factory=dict, metadata=_OPTIONAL)
    """Why items failed, by index."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class VariableInfo:
    """A variable of the kernel, as it was last seen."""

    type: str
    size: int | tuple[int, ...] | None
    preview: str


@dataclass(frozen=True, slots=True)
class VariablesChanged(BaseEvent):
    """The variables that a cell bound, changed and deleted."""

    kind = "variables"

    iteration: int
    added: Mapping[str, VariableInfo]
    changed: Mapping[str, VariableInfo]
    removed: Sequence[str]


@dataclass(frozen=True, slots=True)
class HistoryAppended(BaseEvent):
    """An iteration is part of the history, and the main model has its observation."""

    kind = "history"

    iteration: int
    reasoning: str | None
    hints: Sequence[str]
    """What the model is told about its reply."""

    observation: str
    """All that the model reads after the cell."""

    @property
    def data(self) -> dict[str, Any]:
        """As `BaseEvent.data`; hints and observation are recorded as `remarks` and `told`."""
        return {
            "iteration": self.iteration,
            "reasoning": self.reasoning,
            "remarks": list(self.hints),
            "told": self.observation,
        }


@dataclass(frozen=True, slots=True)
class BudgetUsed(BaseEvent):
    """What has been used of the budget so far."""

    kind = "budget"

    iterations: int
    max_iterations: int | None
    llm_calls: int
    max_llm_calls: int | None
    seconds: float
    max_duration: float | None
    tokens: int
    tokens_in: int
    tokens_out: int
    max_tokens: int | None
    cost_usd: float | None
    max_cost_usd: float | None


@dataclass(frozen=True, slots=True)
class ConversationCompacted(BaseEvent):
    """The middle of the conversation was replaced by a summary."""

    kind = "compacted"

    iteration: int
    turns: int


@dataclass(frozen=True, slots=True)
class ReplayDiffered(BaseEvent):
    """A recorded cell ran again, and printed something else."""

    kind = "replay_differs"

    iteration: int
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class FilesHashed(BaseEvent):
    """The files among the inputs were hashed, and compared with those of the run that is resumed or replayed."""

    kind = "files_hashed"

    files: Mapping[str, Mapping[str, Any]]
    """By place in the inputs, such as `docs/0`: path, size, time and hash."""

    different: Sequence[str] = ()
    """Which of them are not what they were then, and in what."""


@dataclass(frozen=True, slots=True)
class FilesWritten(BaseEvent):
    """The files that code wrote to its out folder were collected: outputs of the run, and figures of its cells."""

    kind = "files_written"

    files: Sequence[Mapping[str, Any]]
    """Name, size, hash and media type of each; `problem` where its content was not taken."""

    contents: Mapping[str, bytes] = field(default_factory=dict)
    """The contents by name. A trace has them as blobs: `body` is then the hash of each."""

    @property
    def data(self) -> dict[str, Any]:
        """As `BaseEvent.data`, without the contents."""
        return {"files": [dict(file) for file in self.files]}


# The ending ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TriggerFired(BaseEvent):
    """A limit was reached without a SUBMIT: the outputs are extracted."""

    kind = "trigger_fired"

    reason: FallbackReason

    @property
    def data(self) -> dict[str, Any]:
        """As `BaseEvent.data`, with the reason in words and in numbers."""
        return {"reason": str(self.reason), "reason_data": self.reason.to_dict()}


@dataclass(frozen=True, slots=True)
class AttemptProblem:
    """One thing that is wrong with an attempt."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class ExtractionAttempted(BaseEvent):
    """An attempt at an extraction was read and checked."""

    kind = "extraction_attempt"

    number: int
    prompt: str
    text: str
    problems: Sequence[AttemptProblem]
    """Empty for the attempt that was accepted."""


@dataclass(frozen=True, slots=True)
class TiersUsed(BaseEvent):
    """Which adapter tier answered the typed questions of the run: counters by signature."""

    kind = "tiers"

    by_signature: Mapping[str, Mapping[str, Any]]


# Plans --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailedThreshold:
    """One threshold that an outcome did not meet: the metric, the wanted value, the actual one."""

    metric: str
    threshold: Any
    actual: Any

    def __str__(self) -> str:
        wanted, actual = (
            f"{number:.4g}" if isinstance(number, float) else number for number in (self.threshold, self.actual)
        )
        return f"{self.metric}: wanted {wanted}, was {actual}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailedThreshold:
        """Return the threshold of a log entry, which another program may have written."""
        return cls(str(data.get("metric")), data.get("threshold"), data.get("actual"))


@dataclass(frozen=True, slots=True)
class RankedPlan:
    """A candidate plan with its rank; 1 is the best."""

    name: str
    rank: int
    score: float
    plan: Mapping[str, Any]
    """The whole plan as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan, its score and its rank."""
        return {**self.plan, "score": self.score, "rank": self.rank}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankedPlan:
        """Return the candidate that `to_dict` described."""
        return cls(str(data.get("name")), data["rank"], data["score"], data)


@dataclass(frozen=True, slots=True)
class PlansCompared(BaseEvent):
    """The candidate plans of a round are made and ranked."""

    kind = "plans_compared"

    loop_id: str
    comparison_set_id: str
    round: int
    weights: Mapping[str, float]
    candidates: Sequence[RankedPlan]
    dropped: Sequence[str]
    """Plans that were left out, and why."""

    timestamp: str
    again: bool = field(default=False, metadata=_OPTIONAL)
    """Whether the round was compared by an earlier run, which this one resumes."""


@dataclass(frozen=True, slots=True)
class PlanSelected(BaseEvent):
    """A plan is about to be run."""

    kind = "plan_selected"

    comparison_set_id: str
    rank: int
    score: float
    plan: Mapping[str, Any]
    limits: FallbackTrigger

    @property
    def name(self) -> str:
        """The name of the plan."""
        return str(self.plan.get("name"))


@dataclass(frozen=True, slots=True)
class PlanRejected(BaseEvent):
    """The answer of a plan did not meet every threshold."""

    kind = "plan_rejected"

    comparison_set_id: str
    plan_id: str
    name: str
    rank: int
    run_id_of_plan: str
    failed_thresholds: Sequence[FailedThreshold]

    @property
    def data(self) -> dict[str, Any]:
        """As `BaseEvent.data`; the run of the plan is recorded as `run_id`."""
        data = _recorded(self)
        return {"run_id" if name == "run_id_of_plan" else name: value for name, value in data.items()}


@dataclass(frozen=True, slots=True)
class PlanEscalated(BaseEvent):
    """Every plan of a round was rejected."""

    kind = "plan_escalated"

    log_entry_id: str
    escalation_reason: str
    fallback_details: str | None
    entry: Mapping[str, Any]
    """The entry of the escalation log."""

    @property
    def data(self) -> dict[str, Any]:
        """The entry of the escalation log."""
        return dict(self.entry)


@dataclass(frozen=True, slots=True)
class OperatorAwaited(BaseEvent):
    """The run waits for an operator's answer to an escalation."""

    kind = "operator_awaited"

    escalation_id: str
    timeout: float
    default: str
    logs: str


@dataclass(frozen=True, slots=True)
class EscalationAnswered(BaseEvent):
    """An operator, or the default, has answered an escalation."""

    kind = "escalation_answered"

    escalation_id: str
    answer: str
    plan_id: str | None
    outputs: Mapping[str, Any] | None
    note: str | None
    answered_by: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class ApprovalRequested(BaseEvent):
    """A cell waits for a person: it wants to call a tool of an MCP server that may change something."""

    kind = "approval_requested"

    approval_id: str
    iteration: int
    function: str
    count: int
    """How many calls are asked about."""

    calls: Sequence[str]
    """The arguments of the first calls, as JSON, a text each."""


@dataclass(frozen=True, slots=True)
class ApprovalAnswered(BaseEvent):
    """The calls of a tool of an MCP server were approved or rejected."""

    kind = "approval_answered"

    approval_id: str
    iteration: int
    approved: bool
    scope: str
    """What is approved: `calls` (those that were shown), `cell` or `run`."""

    answered_by: str
    note: str | None


@dataclass(frozen=True, slots=True)
class PlanAnswered(BaseEvent):
    """The run has its answer: that of a plan, or an operator's."""

    kind = "plan_answered"

    name: str | None
    accepted_by: str | None
    plan: Mapping[str, Any]
    """Which plan answered and which were rejected, as the result has it."""

    @property
    def data(self) -> dict[str, Any]:
        """Which plan answered and which were rejected, as the result has it."""
        return dict(self.plan)


Event: TypeAlias = (
    RunStarted
    | RunEnded
    | RunInterrupted
    | ModeChosen
    | IterationStarted
    | ModelAsked
    | ModelWaiting
    | ModelAnswered
    | ModelFailed
    | CellStarted
    | CellEnded
    | CallStarted
    | CallEnded
    | MapStarted
    | ItemsAnswered
    | VariablesChanged
    | HistoryAppended
    | BudgetUsed
    | ConversationCompacted
    | ReplayDiffered
    | FilesHashed
    | FilesWritten
    | TriggerFired
    | ExtractionAttempted
    | TiersUsed
    | PlansCompared
    | PlanSelected
    | PlanRejected
    | PlanEscalated
    | OperatorAwaited
    | EscalationAnswered
    | PlanAnswered
    | ApprovalRequested
    | ApprovalAnswered
)

KINDS: Mapping[str, type[BaseEvent]] = {event.kind: event for event in get_args(Event)}
"""The event classes by the names under which they are recorded."""

Observer: TypeAlias = Callable[[Event], None]


def from_record(kind: str, run_id: str, time: float, data: Mapping[str, Any]) -> Event:
    """Return the event that was recorded as `data`; not `RunStarted` and `RunEnded`, which hold live objects."""
    made = KINDS[kind]
    if made in (RunStarted, RunEnded):
        raise ValueError(f"{kind} holds live objects, which a record does not have")
    values = _FROM_RECORD[kind](data) if kind in _FROM_RECORD else data
    fields = {name: values[name] for name, _ in _own_fields(made) if name in values}
    return made(run_id, time=time, **fields)  # type: ignore[return-value]


def _variables(data: Mapping[str, Any]) -> dict[str, Any]:
    infos = {side: {name: VariableInfo(**info) for name, info in data[side].items()} for side in ("added", "changed")}
    return {**data, **infos}


# Where the fields of a kind are not recorded under their own names, or not as plain values.
_FROM_RECORD: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "model_asked": lambda data: {**data, "retained": data.get("kept") or 0},
    "cell_ended": lambda data: {**data, "error": CellError(**data["error"]) if data.get("error") else None},
    "variables": _variables,
    "history": lambda data: {**data, "hints": data.get("remarks") or (), "observation": data.get("told") or ""},
    "trigger_fired": lambda data: {"reason": FallbackReason.from_dict(data["reason_data"])},
    "extraction_attempt": lambda data: {
        **data,
        "problems": [AttemptProblem(problem["path"], problem["message"]) for problem in data.get("problems") or ()],
    },
    "plans_compared": lambda data: {
        **data,
        "candidates": [RankedPlan.from_dict(candidate) for candidate in data["candidates"]],
        "dropped": data.get("dropped") or (),
    },
    "plan_selected": lambda data: {**data, "limits": FallbackTrigger(**data["limits"])},
    "plan_rejected": lambda data: {
        **data,
        "run_id_of_plan": data.get("run_id") or "",
        "failed_thresholds": [FailedThreshold.from_dict(threshold) for threshold in data["failed_thresholds"]],
    },
    "plan_escalated": lambda data: {**data, "fallback_details": data.get("fallback_details"), "entry": data},
    "plan_answered": lambda data: {**data, "plan": data},
}


def ignore(event: Event) -> None:
    """Do nothing: the observer of a run that nobody watches."""


def fan_out(*observers: Observer) -> Observer:
    """Return one observer that passes each event on to several."""
    active = [observer for observer in observers if observer is not ignore]
    if len(active) < 2:
        return active[0] if active else ignore

    def observe(event: Event) -> None:
        for observer in active:
            observer(event)

    return observe


@dataclass(frozen=True, slots=True)
class Emitter:
    """Passes the events of one run to its observer."""

    run_id: str
    observer: Observer

    @property
    def active(self) -> bool:
        """Whether there is an observer. Events that are costly to make need not be made if not."""
        return self.observer is not ignore

    def __call__(self, event: Event) -> None:
        """Pass an event on. What the observer raises is logged, and the run goes on."""
        try:
            self.observer(event)
        except Exception:
            _logger.exception("an observer failed at %s of run %s; the run goes on", event.kind, self.run_id)


def _recorded(event: BaseEvent) -> dict[str, Any]:
    fields = _own_fields(type(event))
    return {name: _plain(value) for name, left_out in fields if (value := getattr(event, name)) is not left_out}


def _own_fields(kind: type[BaseEvent]) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a kind that its base does not have, with the value at which each is left out."""
    if kind not in _FIELDS:
        base = {attribute.name for attribute in dataclasses.fields(BaseEvent)}
        own = [attribute for attribute in dataclasses.fields(kind) if attribute.name not in base]
        _FIELDS[kind] = tuple(
            (attribute.name, attribute.default if attribute.metadata.get("optional") else _NEVER) for attribute in own
        )
    return _FIELDS[kind]


_FIELDS: dict[type[BaseEvent], tuple[tuple[str, Any], ...]] = {}


def _plain(value: Any) -> Any:
    """Return a field as plain data."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {attribute.name: getattr(value, attribute.name) for attribute in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(inner) if dataclasses.is_dataclass(inner) else inner for name, inner in value.items()}
    if isinstance(value, tuple | list) and value and dataclasses.is_dataclass(value[0]):
        return [_plain(inner) for inner in value]
    return value
