"""Where plans come from: those of the task file, those of the caller's function, and the model for the rest."""

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
class Request:
    """What plans are asked for. A caller's function gets this, and so does, in words, the model."""

    signature: Signature
    inputs: Mapping[str, Any]
    count: int
    round: int
    weights: Weights
    models: tuple[str, ...] = ()
    """The names that a plan may give as its model."""

    tools: tuple[str, ...] = ()
    budget: str = ""
    rejected: tuple[Rejection, ...] = ()
    """What was tried before in this loop, and why it was rejected."""

    advice: tuple[str, ...] = field(default=())


class _Proposed(BaseModel):
    """One plan as a model writes it."""

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


async def from_model(request: Request, ask: Ask) -> list[Plan]:
    """Ask the model for plans. Raises `NoPlans` when no answer of it can be used, and what `ask` raises."""

    def known(value: Any) -> str | None:
        for one in value:
            if one.get("model") is not None and one["model"] not in request.models:
                return f"there is no model {one['model']!r}; leave it out or choose from {list(request.models)}"
            if unknown := sorted(set(one.get("tools") or ()) - set(request.tools)):
                return f"there are no tools {unknown}; leave them out or choose from {list(request.tools)}"
        return None

    orchestrator = ExtractionOrchestrator.for_type(list[_Proposed]).checked_by(known)
    try:
        made, _ = await orchestrator.extract_typed(list[_Proposed], ask, prompt_for(request))
    except ExtractionError as error:
        raise NoPlans(f"the model proposed no plans that can be used: {error}") from error
    return [_plan(one) for one in made[: request.count]]


async def from_function(function: Callable[[Request], Any], request: Request) -> list[Plan]:
    """The plans of a caller's function: `Plan`s, mappings with their fields, or approaches as text."""
    try:
        made = await asyncio.to_thread(function, request)
        if inspect.isawaitable(made):
            made = await made
        plans = [_given(one) for one in list(made or ())[:_MAX_PLANS]]
    except Exception as error:
        name = getattr(function, "__name__", "the function")
        raise NoPlans(f"{name} gave no plans: {type(error).__name__}: {error}") from error
    for plan in plans:
        check(plan, request.models, request.tools)
    return plans


def check(plan: Plan, models: Sequence[str], tools: Sequence[str]) -> None:
    """Raise `NoPlans` if a plan names a model or a tool that is not there."""
    if plan.model is not None and plan.model not in models:
        raise NoPlans(f"plan {plan.name!r}: there is no model {plan.model!r}; known are {', '.join(models)}")
    if unknown := sorted(set(plan.tools or ()) - set(tools)):
        raise NoPlans(f"plan {plan.name!r}: the task has no tool {', '.join(unknown)}")


def prompt_for(request: Request) -> str:
    """What the model reads that is asked for plans."""
    weights = request.weights
    return template("propose").substitute(
        instructions=request.signature.instructions,
        inputs=describe_inputs(request.signature, request.inputs),
        outputs=request.signature.field_list(),
        models=", ".join(request.models) or "one",
        tools=", ".join(request.tools) or "none",
        budget=request.budget or "not said",
        before=_before(request),
        count=request.count,
        weights=f"cost {weights.cost:g}, risk {weights.risk:g}, fit {weights.fit:g}",
    )


def _before(request: Request) -> str:
    """What was tried before. The texts are quoted: a rejected plan cannot speak in the name of the task."""
    if not request.rejected and not request.advice:
        return ""
    lines = ["", "# What was tried before, and rejected"]
    for one in request.rejected:
        lines += [_quoted(f"{one.plan.name}: {one.plan.approach}"), f"Rejected: {_one_line(one.reasons)}", ""]
    if request.advice:
        lines += ["# What to do otherwise", *(f"- {_one_line(one)}" for one in request.advice), ""]
    return "\n".join(lines)


def _plan(one: _Proposed) -> Plan:
    tools = None if one.tools is None else tuple(one.tools)
    scores = Scores(one.cost, one.risk, one.fit)
    return Plan(one.approach, one.name, one.model, one.budget_share, tools, one.temperature, scores, "model")


def _given(one: Any) -> Plan:
    if isinstance(one, Plan):
        return replace(one, source="function")
    if isinstance(one, str):
        return Plan(one, source="function")
    return replace(Plan.from_dict(one), source="function")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text[:MAX_APPROACH_CHARS].splitlines())


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_REASON_CHARS]
