"""Settings of plans: how they are made and judged, and what happens if all are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, MinLen
from pydantic import Strict

from ..units import Duration
from .plan import Plan, Weights

DEFAULT_COUNT = 3
DefaultAnswer = Literal["approve", "reject"]
Strategy = Literal["log_and_alert_operator", "attempt_regeneration"]
ALERT: Strategy = "log_and_alert_operator"
REGENERATE: Strategy = "attempt_regeneration"
STRATEGIES: Mapping[str, Strategy] = {
    ALERT: ALERT,
    REGENERATE: REGENERATE,
    "attempt_regeneration_simple": REGENERATE,
    "regenerate_with_adjusted_weights": REGENERATE,
}
"""The strategies by their names in configurations."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges answers with yes or no and a reason."""

    question: Annotated[str, MinLen(1)]
    """What must be true of an answer, as a question."""

    model: str | None = None
    """The name of a model of the task or its plans. Default: the main model."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds that an answer must meet: the governance of plans."""

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
class FallbackConfig:
    """What to do if all plans are rejected."""

    enabled: bool = True
    strategy: Strategy = ALERT
    rounds: int = 1
    """How often new plans are made before an operator is asked."""

    @classmethod
    def of(cls, config: FallbackConfig | Mapping[str, Any] | None) -> FallbackConfig:
        """Return the configuration in a mapping: `fallback_enabled` and `default_fallback_strategy`, or `enabled` and
        `strategy`; each has a default. Raises `ValueError`."""
        if isinstance(config, FallbackConfig):
            return config
        values = dict(config or {})
        enabled = _pop_first(values, ("fallback_enabled", "enabled"), True)
        name = _pop_first(values, ("default_fallback_strategy", "strategy"), ALERT)
        rounds = _pop_first(values, ("rounds",), 1)
        if values:
            raise ValueError(f"the fallback has no setting {', '.join(map(repr, values))}")
        if not isinstance(enabled, bool):
            raise ValueError(f"fallback_enabled must be true or false, not {enabled!r}")
        if not isinstance(name, str) or name not in STRATEGIES:
            raise ValueError(f"there is no fallback strategy {name!r}; known are {', '.join(STRATEGIES)}")
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 0:
            raise ValueError(f"rounds must be an integer, 0 or more, not {rounds!r}")
        return cls(enabled, STRATEGIES[name], rounds)


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
    """The settings of the plans of a task."""

    plans: tuple[Plan, ...] = ()
    """Plans that are given; a model is asked for the others."""

    count: int = DEFAULT_COUNT
    """The number of plans in a set."""

    propose: Callable[[Any], Any] | None = None
    """A function that is called with a `PlanRequest` and returns plans: see `proposals.py`."""

    planner: str | None = None
    """The model that is asked for plans: a name among the models of the plans. None is the task's main model."""

    weights: Weights = field(default_factory=Weights)
    parallel: int = 1
    """The number of plans that run at once."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    fallback: FallbackConfig = field(default_factory=FallbackConfig)
    operator: Operator = field(default_factory=Operator)
    models: Mapping[str, Any] = field(default_factory=dict)
    """Models that plans, planner and judge may name, in addition to `main`, `sub` and `extraction` of the task."""

    stronger: str | None = None
    """The model of plans that are made after uncertain answers: a name among the models of the plans."""

    logs: Path | None = None
    """The folder of the logs. None is `plans` in `RLM_HOME`."""

    def __post_init__(self) -> None:
        for name in ("count", "parallel"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")

    @classmethod
    def of(cls, value: PlanSettings | int | Sequence[Plan | str]) -> PlanSettings:
        """Return the settings for a number of plans to ask the model for, or for a list of plans or approaches."""
        if isinstance(value, PlanSettings):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(count=value)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f"plans must be PlanSettings, a number or a list of plans, not {type(value).__name__}")
        plans = tuple(Plan(plan) if isinstance(plan, str) else plan for plan in value)
        return cls(plans, count=len(plans))

    def check_models(self, known: Iterable[str]) -> None:
        """Raise `ValueError` if the planner, the judge or the stronger model is unknown."""
        judge = self.thresholds.judge
        named = {"planner": self.planner, "stronger": self.stronger, "judge": judge.model if judge else None}
        for use, name in named.items():
            if name is not None and name not in known:
                raise ValueError(f"{use} of the plans: there is no model {name!r}; known are {', '.join(known)}")


def _pop_first(values: dict[str, Any], names: tuple[str, ...], default: Any) -> Any:
    """Remove all of these names from the values; return the value of the first."""
    removed = [values.pop(name) for name in names if name in values]
    return removed[0] if removed else default
