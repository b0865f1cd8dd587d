"""Sources of plans: a function of the caller, and a model that is asked for proposals."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..errors import RlmError
from ..extraction.errors import ExtractionError
from ..extraction.retry import ExtractionOrchestrator, Reply
from ..repl.prompts import describe_inputs
from ..signatures import Signature
from .plan import MAX_APPROACH_CHARS, Plan, Rejection, Scores, Weights
from .prompts import template

_MAX_PLANS = 20
_MAX_REASON_CHARS = 400

Ask = Callable[[str], Awaitable[Reply]]


class NoPlans(RlmError):
    """There is no plan to run; the message says why."""


@dataclass(frozen=True)
class PlanRequest:
    """A request for plans. A caller's function receives it as it is, a model as a prompt."""

    signature: Signature
    inputs: Mapping[str, Any]
    count: int
    round: int
    weights: Weights
    models: tuple[str, ...] = ()
    """Names that a plan may give as its model."""

    tools: tuple[str, ...] = ()
    budget: str = ""
    rejected: tuple[Rejection, ...] = ()
    """The earlier rejections of this loop."""

    advice: tuple[str, ...] = field(default=())


class _Proposed(BaseModel):
    """A plan as a model writes it."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=120)
    approach: str = Field(min_length=1, max_length=MAX_APPROACH_CHARS)
    cost: float = Field(ge=0, le=1)
    risk: float = Field(ge=0, le=1)
    fit: float = Field(ge=0, le=1)
    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    tools: list[str] | None = None
    budget_share: float | None = Field(None, gt=0, le=1)


async def from_model(request: PlanRequest, ask: Ask) -> list[Plan]:
    """Ask a model for plans. Raises `NoPlans` if its answers cannot be used, and what `ask` raises."""

    def check_names(value: Any) -> str | None:
        for plan in value:
            if plan.get("model") is not None and plan["model"] not in request.models:
                return f"there is no model {plan['model']!r}; leave it out or choose from {list(request.models)}"
            if unknown := sorted(set(plan.get("tools") or ()) - set(request.tools)):
                return f"there are no tools {unknown}; leave them out or choose from {list(request.tools)}"
        return None

    orchestrator = ExtractionOrchestrator.for_type(list[_Proposed]).checked_by(check_names)
    try:
        proposed, _ = await orchestrator.extract_typed(list[_Proposed], ask, prompt_for(request))
    except ExtractionError as error:
        raise NoPlans(f"the model proposed no usable plans: {error}") from error
    return [_from_proposed(plan) for plan in proposed[: request.count]]


async def from_function(function: Callable[[PlanRequest], Any], request: PlanRequest) -> list[Plan]:
    """Return the plans of a caller's function: `Plan`s, mappings of their fields, or approaches as text."""
    try:
        returned = await asyncio.to_thread(function, request)
        if inspect.isawaitable(returned):
            returned = await returned
        plans = [_from_function(plan) for plan in list(returned or ())[:_MAX_PLANS]]
    except Exception as error:
        name = getattr(function, "__name__", "the function")
        raise NoPlans(f"{name} returned no plans: {type(error).__name__}: {error}") from error
    for plan in plans:
        check(plan, request.models, request.tools)
    return plans


def check(plan: Plan, models: Sequence[str], tools: Sequence[str]) -> None:
    """Raise `NoPlans` if a plan names an unknown model or tool."""
    if plan.model is not None and plan.model not in models:
        raise NoPlans(f"plan {plan.name!r}: there is no model {plan.model!r}; known are {', '.join(models)}")
    if unknown := sorted(set(plan.tools or ()) - set(tools)):
        raise NoPlans(f"plan {plan.name!r}: the task has no tool {', '.join(unknown)}")


def prompt_for(request: PlanRequest) -> str:
    """Return the prompt that asks a model for plans."""
    weights = request.weights
    return template("propose").substitute(
        instructions=request.signature.instructions,
        inputs=describe_inputs(request.signature, request.inputs),
        outputs=request.signature.field_list(),
        models=", ".join(request.models) or "one",
        tools=", ".join(request.tools) or "none",
        budget=request.budget or "not said",
        before=_rejected_text(request),
        count=request.count,
        weights=f"cost {weights.cost:g}, risk {weights.risk:g}, fit {weights.fit:g}",
    )


def _rejected_text(request: PlanRequest) -> str:
    """Return the earlier rejections, quoted so that the text of a plan cannot pass for that of the task."""
    if not request.rejected and not request.advice:
        return ""
    lines = ["", "# What was tried before, and rejected"]
    for rejection in request.rejected:
        approach = _quote(f"{rejection.plan.name}: {rejection.plan.approach}")
        lines += [approach, f"Rejected: {_one_line(rejection.reasons)}", ""]
    if request.advice:
        lines += ["# What to do otherwise", *(f"- {_one_line(advice)}" for advice in request.advice), ""]
    return "\n".join(lines)


def _from_proposed(p: _Proposed) -> Plan:
    tools = None if p.tools is None else tuple(p.tools)
    scores = Scores(p.cost, p.risk, p.fit)
    return Plan(p.approach, p.name, p.model, p.budget_share, tools, p.temperature, scores, "model")


def _from_function(plan: Any) -> Plan:
    if isinstance(plan, Plan):
        return replace(plan, source="function")
    if isinstance(plan, str):
        return Plan(plan, source="function")
    return replace(Plan.from_dict(plan), source="function")


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text[:MAX_APPROACH_CHARS].splitlines())


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_REASON_CHARS]
