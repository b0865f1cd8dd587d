"""The `plans` section of a task file, except for the models that plans may name, which are in `task.py`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, field_validator

from ...plans.plan import MAX_APPROACH_CHARS, Scores, Weights
from ...plans.settings import DEFAULT_COUNT, Judge, Operator
from ...units import Duration
from .section import FromMapping, Section

_REFERENCE = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
Reference = Annotated[str, WithJsonSchema({"type": "string", "pattern": _REFERENCE})]


class PlanFile(Section):
    """One plan."""

    approach: str = Field(
        min_length=1, max_length=MAX_APPROACH_CHARS, description="The approach, in words. The model reads it."
    )
    name: str = Field("", description="A few words for it.")
    model: str | None = Field(
        None, description="The model that writes the code: main, sub, extraction, or a name under `plans.models`."
    )
    budget_share: float | None = Field(
        None, gt=0, le=1, description="Its share of the whole budget. Default: an even share of what is left."
    )
    tools: list[str] | None = Field(None, description="The tools of the task that it may use. Default: all.")
    temperature: float | None = Field(None, ge=0, description="The sampling temperature of the model.")
    scores: Annotated[Scores, FromMapping()] = Field(Scores(), description="What is expected of it.")


class GovernanceFile(Section):
    """Conditions for an answer. An answer that does not meet them is rejected, and the next plan is tried."""

    min_confidence: float | None = Field(None, ge=0, le=1, description="The least confidence.")
    accept_extracted: bool = Field(True, description="Whether an extracted answer may be given.")
    max_cost_usd: float | None = Field(None, ge=0, description="The most that one plan may cost.")
    max_seconds: Duration | None = Field(None, ge=0, description="How long one plan may take: seconds, or `2m`.")
    invariants: list[str] = Field(
        default_factory=list, description="Expressions over the outputs that must be true.", examples=[["total >= 0"]]
    )
    function: Reference | None = Field(
        None, description="A function `module:name` called with the outputs; it rejects with False or a reason."
    )
    judge: Annotated[Judge, FromMapping(text="question")] | None = Field(
        None, description="A question that a model answers with yes or no; or `question` and `model`."
    )


class FallbackFile(Section):
    """What happens when all plans are rejected."""

    fallback_enabled: bool = Field(True, description="Whether to do anything.")
    default_fallback_strategy: Literal[
        "log_and_alert_operator", "attempt_regeneration", "attempt_regeneration_simple"
    ] = Field("log_and_alert_operator", description="Ask an operator, or make new plans first.")
    rounds: int = Field(1, ge=0, le=10, description="How often new plans are made before an operator is asked.")


class PlansSection(Section):
    """Several plans for the task: compared, tried in order and judged, with a fallback if all are rejected."""

    count: int | None = Field(
        None,
        ge=1,
        le=20,
        description="The number of plans. A model proposes those that are not given. "
        f"Default: the number of those given, or {DEFAULT_COUNT}.",
    )
    candidates: list[PlanFile] = Field(default_factory=list, description="The plans that are given.")
    function: Reference | None = Field(
        None, description="A function `module:name` that returns plans.", examples=["kit:propose"]
    )
    planner: str | None = Field(None, description="The model that proposes plans. Default: the main model.")
    weights: Annotated[Weights, FromMapping()] = Field(Weights(), description="How plans are compared.")
    parallel: int = Field(1, ge=1, le=16, description="How many plans run at once.")
    governance: GovernanceFile = Field(
        default_factory=lambda: GovernanceFile.model_validate({}), description="What an answer must meet."
    )
    fallback: FallbackFile = Field(
        default_factory=lambda: FallbackFile.model_validate({}), description="What happens when all are rejected."
    )
    operator: Annotated[Operator, FromMapping()] = Field(
        Operator(), description="Who is notified, and how long to wait for an answer."
    )
    stronger: str | None = Field(
        None, description="A model for new plans after answers with too little confidence: a name under `models`."
    )
    logs: str | None = Field(None, description="The folder of the logs. Default: `plans` in rlm's data folder.")

    @field_validator("candidates", mode="before")
    @classmethod
    def _texts_are_plans(cls, value: Any) -> Any:
        return (
            [{"approach": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value
        )
