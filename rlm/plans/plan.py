"""Plans, candidates and rejections: frozen values that are stored in the logs."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from ..events import FailedThreshold, PlansCompared, RankedPlan
from ..text import shorten

MAX_APPROACH_CHARS = 4_000
MAX_NAME_CHARS = 60

Source = Literal["file", "function", "model"]
Share = Annotated[float, Interval(ge=0, le=1)]
Weight = Annotated[float, Ge(0)]


def new_id() -> str:
    """Return a new id for a plan, a comparison set or a log entry."""
    return str(uuid.uuid4())


def now() -> str:
    """Return the present time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Scores:
    """The predicted cost, risk and fit of a plan, each from 0 to 1. Low cost and risk are good, high fit is good."""

    cost: Share = 0.5
    """0 is almost nothing, 1 is the whole budget."""

    risk: Share = 0.5
    """0 cannot fail, 1 certainly fails."""

    fit: Share = 0.5
    """1 does exactly what the task asks."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"the predicted {name} must be a number from 0 to 1, not {value!r}")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each criterion. Only their proportions matter."""

    cost: Weight = 1.0
    """Being cheap."""

    risk: Weight = 1.0
    """Being safe."""

    fit: Weight = 1.0
    """Doing what the task asks."""

    def __post_init__(self) -> None:
        values = asdict(self)
        for name, value in values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                raise ValueError(f"the weight of {name} must be a number, 0 or more, not {value!r}")
        if not sum(values.values()):
            raise ValueError("one of the weights must be more than 0")

    def score(self, scores: Scores) -> float:
        """Return the weighted mean of low cost, low risk and fit: from 0 to 1, higher is better."""
        whole = self.cost + self.risk + self.fit
        return (self.cost * (1 - scores.cost) + self.risk * (1 - scores.risk) + self.fit * scores.fit) / whole


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to do a task: the approach in words, parameters, and predicted scores."""

    approach: str
    name: str = ""
    model: str | None = None
    """The model that writes the code: a name among the models of the plans. None is the task's main model."""

    budget_share: float | None = None
    """The share of the whole budget that it may use, from 0 to 1. None is an even part of what is left."""

    tools: tuple[str, ...] | None = None
    """The tools of the task that its code may call. None is all of them."""

    temperature: float | None = None
    scores: Scores = field(default_factory=Scores)
    source: Source = "file"
    plan_id: str = field(default_factory=new_id)

    def __post_init__(self) -> None:
        if not isinstance(self.approach, str) or not self.approach.strip():
            raise ValueError("a plan needs an approach, in words")
        if len(self.approach) > MAX_APPROACH_CHARS:
            raise ValueError(
                f"an approach may have at most {MAX_APPROACH_CHARS:,} characters, not {len(self.approach):,}"
            )
        if self.budget_share is not None and not 0 < self.budget_share <= 1:
            raise ValueError(f"budget_share must be more than 0 and at most 1, not {self.budget_share!r}")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise ValueError(f"a temperature must be a number, 0 or more, not {self.temperature!r}")
        name = " ".join((self.name if self.name.strip() else self.approach).split())
        object.__setattr__(self, "name", shorten(name, MAX_NAME_CHARS))

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {**asdict(self), "tools": None if self.tools is None else list(self.tools)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan described by `to_dict`."""
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        values["scores"] = Scores(**data.get("scores") or {})
        tools = data.get("tools")
        return cls(**{**values, "tools": None if tools is None else tuple(tools)})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its score and rank. Rank 1 is the best."""

    plan: Plan
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The candidate plans of one round of a loop, best first."""

    loop_id: str
    round: int
    weights: Weights
    candidates: tuple[Candidate, ...]
    dropped: tuple[str, ...] = ()
    """Descriptions of plans that were left out as duplicates."""

    comparison_set_id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)

    def to_dict(self) -> dict[str, Any]:
        """Return the set as an entry of `multi_plan_comparison.json`."""
        return {
            "loop_id": self.loop_id,
            "comparison_set_id": self.comparison_set_id,
            "round": self.round,
            "weights": asdict(self.weights),
            "candidates": [{**c.plan.to_dict(), "score": c.score, "rank": c.rank} for c in self.candidates],
            "dropped": list(self.dropped),
            "timestamp": self.timestamp,
        }

    def to_event(self, run_id: str, *, again: bool = False) -> PlansCompared:
        """Return the set as an event of a run; `again` if an earlier run compared it."""
        ranked = [RankedPlan(c.plan.name, c.rank, c.score, c.plan.to_dict()) for c in self.candidates]
        data = self.to_dict() | {"candidates": ranked}
        return PlansCompared(run_id, **data, again=again)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CandidateSet:
        """Return the set described by `to_dict`."""
        candidates = tuple(Candidate(Plan.from_dict(c), c["score"], c["rank"]) for c in data["candidates"])
        return cls(
            data["loop_id"],
            data["round"],
            Weights(**data["weights"]),
            candidates,
            tuple(data.get("dropped") or ()),
            data["comparison_set_id"],
            data["timestamp"],
        )


@dataclass(frozen=True, slots=True)
class Rejection:
    """A plan whose answer is not accepted, or that could not be run."""

    loop_id: str
    comparison_set_id: str
    round: int
    rank: int
    plan: Plan
    failed: tuple[FailedThreshold, ...]
    """The thresholds that were not met."""

    run_id: str = ""
    """The run of the plan; empty if it was not run."""

    result: Mapping[str, Any] | None = None
    """The result of the run as plain JSON values, without its history."""

    @property
    def answer(self) -> Any:
        """The outputs, if there are any that fit the signature."""
        return (self.result or {}).get("outputs")

    @property
    def reasons(self) -> str:
        """The reasons of the rejection as text."""
        return "; ".join(map(str, self.failed))

    def to_dict(self) -> dict[str, Any]:
        """Return the rejection as an entry of `plan_rejection_log.json`."""
        return {
            "log_entry_id": new_id(),
            "loop_id": self.loop_id,
            "comparison_set_id": self.comparison_set_id,
            "plan_id": self.plan.plan_id,
            "round": self.round,
            "rank": self.rank,
            "plan": self.plan.to_dict(),
            "rejection_reason": self.reasons,
            "failed_thresholds": [asdict(threshold) for threshold in self.failed],
            "run_id": self.run_id,
            "result": self.result,
            "timestamp": now(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rejection:
        """Return the rejection described by `to_dict`."""
        failed = tuple(FailedThreshold(**threshold) for threshold in data["failed_thresholds"])
        position = (data["loop_id"], data["comparison_set_id"], data["round"], data["rank"])
        return cls(*position, Plan.from_dict(data["plan"]), failed, data.get("run_id") or "", data.get("result"))


def best(rejections: Iterable[Rejection]) -> Rejection | None:
    """Return the best rejected answer: fewest failed thresholds, then highest confidence, then best rank."""
    answered = [rejection for rejection in rejections if rejection.answer is not None]
    return min(answered, key=lambda r: (len(r.failed), -_confidence(r), r.rank, -r.round), default=None)


def _confidence(rejection: Rejection) -> float:
    return float((rejection.result or {}).get("confidence") or 0.0)
