"""How a task wants its plans made, judged and, when all are rejected, followed up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, MinLen
from pydantic import Strict

from ..units import Duration
from .escalation import FallbackConfig
from .plan import Plan, Weights

DEFAULT_COUNT = 3
DefaultAnswer = Literal["approve", "reject"]


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges answers with yes or no and a reason."""

    question: Annotated[str, MinLen(1)]
    """What must be true of an answer, as a question."""

    model: str | None = None
    """The name of a model of the task or its plans. Default: the main model."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What an answer must meet to be given: the governance of plans."""

    min_confidence: float | None = None
    accept_extracted: bool = True
    max_cost_usd: float | None = None
    max_seconds: float | None = None
    invariants: tuple[str, ...] = ()
    """Expressions over the outputs. They run in the sandbox."""

    function: Callable[[Any], Any] | None = None
    """Called with the outputs. It accepts with None or True, and rejects with False, a reason or an exception."""

    judge: Judge | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """How a person is notified of an escalation, and how long to wait for the answer."""

    command: Annotated[tuple[str, ...], Strict(False)] = ()
    """A program that is started without a shell; it reads the escalation as JSON on its standard input."""

    webhook: str | None = None
    """A URL that the escalation is posted to, as JSON."""

    timeout: Annotated[Duration, Ge(0)] = 0.0
    """How long to wait for the answer, in seconds. 0 takes the default; a later answer counts on resuming."""

    default: DefaultAnswer = "reject"
    """The answer if nobody answers in time."""

    def __post_init__(self) -> None:
        if self.webhook is None:
            return
        try:
            parts = urlsplit(self.webhook)
        except ValueError:
            raise ValueError("webhook is not a URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a webhook begins with http:// or https://")
        if "@" in parts.netloc:
            raise ValueError("a webhook URL with a user and password is refused")


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Everything about the plans of a task."""

    plans: tuple[Plan, ...] = ()
    """Plans that are given, and not asked for."""

    count: int = DEFAULT_COUNT
    """How many plans to have. The model is asked for those that are not given."""

    propose: Callable[[Any], Any] | None = None
    """The caller's own source of plans: called with a `Request`, gives plans. See `proposing.py`."""

    planner: str | None = None
    """Which model is asked for plans: a name among the models of the plans. None is the task's main model."""

    weights: Weights = field(default_factory=Weights)
    parallel: int = 1
    """How many plans are run at once."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    fallback: FallbackConfig = field(default_factory=FallbackConfig)
    operator: Operator = field(default_factory=Operator)
    models: Mapping[str, Any] = field(default_factory=dict)
    """Models that plans, planner and judge may name, beside the task's own `main`, `sub` and `extraction`."""

    stronger: str | None = None
    """A model for plans that are made after answers with too little confidence: a name among the plans' models."""

    logs: Path | None = None
    """The folder of the logs. None: `plans` in rlm's own folder."""

    def __post_init__(self) -> None:
        for name in ("count", "parallel"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is 1 or more, not {getattr(self, name)}")

    @classmethod
    def of(cls, given: PlanSettings | int | Sequence[Plan | str]) -> PlanSettings:
        """The settings from a number of plans that the model is asked for, or from the plans; a text is a plan, too."""
        if isinstance(given, PlanSettings):
            return given
        if isinstance(given, int) and not isinstance(given, bool):
            return cls(count=given)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise TypeError(f"plans are PlanSettings, a number or a list of plans, not {type(given).__name__}")
        plans = tuple(Plan(one) if isinstance(one, str) else one for one in given)
        return cls(plans, count=len(plans))

    def check_models(self, known: Iterable[str]) -> None:
        """Raise `ValueError` if the planner, the judge or the stronger model is not among the known ones."""
        judge = self.thresholds.judge
        named = {"planner": self.planner, "stronger": self.stronger, "judge": judge.model if judge else None}
        for use, name in named.items():
            if name is not None and name not in known:
                raise ValueError(f"{use} of the plans: there is no model {name!r}; known are {', '.join(known)}")
