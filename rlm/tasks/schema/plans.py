"""What a task file may say about plans. The models that plans can name stand in `schema.py`, with all models."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, Tag, WithJsonSchema, field_validator, model_validator

from ...plans.plan import MAX_APPROACH_CHARS
from ...plans.settings import DEFAULT_COUNT
from ..units import Duration
from .section import Section

_REFERENCE = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
Reference = Annotated[str, WithJsonSchema({"type": "string", "pattern": _REFERENCE})]


class ScoresFile(Section):
    """What a plan is expected to be like, from 0 to 1."""

    cost: float = Field(0.5, ge=0, le=1, description="0 is next to nothing, 1 is the whole budget.")
    risk: float = Field(0.5, ge=0, le=1, description="0 is that it cannot go wrong, 1 is that it will.")
    fit: float = Field(0.5, ge=0, le=1, description="1 is that it does exactly what the task asks.")


class PlanFile(Section):
    """One plan."""

    approach: str = Field(
        min_length=1, max_length=MAX_APPROACH_CHARS, description="What to do, in words. The model reads it."
    )
    name: str = Field("", description="A few words for it.")
    model: str | None = Field(
        None, description="Who writes the code: main, sub, extraction, or a name under `plans.models`."
    )
    budget_share: float | None = Field(
        None, gt=0, le=1, description="Its part of the whole budget; an even part of what is left, unless told."
    )
    tools: list[str] | None = Field(None, description="Which of the task's tools it may use; all, unless told.")
    temperature: float | None = Field(None, ge=0, description="How far to stray from the likeliest words.")
    scores: ScoresFile = Field(
        default_factory=lambda: ScoresFile.model_validate({}), description="What is expected of it."
    )


class WeightsFile(Section):
    """How much each criterion counts. Only the proportions matter."""

    cost: float = Field(1.0, ge=0, description="Being cheap.")
    risk: float = Field(1.0, ge=0, description="Being safe.")
    fit: float = Field(1.0, ge=0, description="Doing what the task asks.")

    @model_validator(mode="after")
    def _one_counts(self) -> WeightsFile:
        if not self.cost + self.risk + self.fit:
            raise ValueError("one of the weights must be more than 0")
        return self


class JudgeFile(Section):
    """A model that judges answers."""

    question: str = Field(min_length=1, description="What must be true of an answer, as a question.")
    model: str | None = Field(None, description="Who is asked: main, sub, extraction, or a name under `plans.models`.")


class GovernanceFile(Section):
    """What an answer must meet. An answer that does not is rejected, and the next plan is tried."""

    min_confidence: float | None = Field(None, ge=0, le=1, description="The least confidence.")
    accept_extracted: bool = Field(True, description="Whether an extracted answer may be given.")
    max_cost_usd: float | None = Field(None, ge=0, description="What one plan may cost.")
    max_seconds: Duration | None = Field(None, ge=0, description="How long one plan may take: seconds, or `2m`.")
    invariants: list[str] = Field(
        default_factory=list, description="Expressions over the outputs that must be true.", examples=[["total >= 0"]]
    )
    function: Reference | None = Field(
        None, description="A function `module:name` that is called with the outputs and says no with False or a reason."
    )
    judge: (
        Annotated[
            Annotated[str, Tag("<text>")] | Annotated[JudgeFile, Tag("<mapping>")],
            Discriminator(lambda value: "<text>" if isinstance(value, str) else "<mapping>"),
        ]
        | None
    ) = Field(None, description="A question that a model answers with yes or no; or `question` and `model`.")


class FallbackFile(Section):
    """What happens when all plans are rejected."""

    fallback_enabled: bool = Field(True, description="Whether anything happens at all.")
    default_fallback_strategy: Literal[
        "log_and_alert_operator", "attempt_regeneration", "attempt_regeneration_simple"
    ] = Field("log_and_alert_operator", description="Ask an operator, or make new plans first.")
    rounds: int = Field(1, ge=0, le=10, description="How often new plans are made before an operator is asked.")


class OperatorFile(Section):
    """How a person is told of an escalation and answers it: `rlm escalations approve|reject|retry`."""

    command: list[str] = Field(
        default_factory=list,
        description="A program that is started, without a shell; the escalation is JSON on its standard input.",
        examples=[["notify", "--channel", "runs"]],
    )
    webhook: str | None = Field(None, description="A URL that the escalation is posted to, as JSON.")
    timeout: Duration = Field(0.0, ge=0, description="How long to wait for the answer: seconds, or `10m`; 0 is not.")
    default: Literal["approve", "reject"] = Field("reject", description="What is taken when nobody answers in time.")

    @field_validator("webhook")
    @classmethod
    def _is_a_url(cls, value: str | None) -> str | None:
        try:
            parts = urlsplit(value or "http://localhost")
        except ValueError:
            raise ValueError("this is not a URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a webhook begins with http:// or https://")
        if "@" in parts.netloc:
            raise ValueError("a URL with a user and password is refused")
        return value


class PlansSection(Section):
    """Several ways to do the task: compared, tried in order, judged; and what happens when all are rejected."""

    count: int | None = Field(
        None,
        ge=1,
        le=20,
        description="How many plans to have. The model is asked for those that are not given. "
        f"As many as are given, or {DEFAULT_COUNT}, unless told.",
    )
    candidates: list[PlanFile] = Field(default_factory=list, description="Plans that are given.")
    function: Reference | None = Field(
        None, description="A function `module:name` that gives plans.", examples=["kit:propose"]
    )
    planner: str | None = Field(None, description="Who is asked for plans; the main model, unless told.")
    weights: WeightsFile = Field(
        default_factory=lambda: WeightsFile.model_validate({}), description="How plans are compared."
    )
    parallel: int = Field(1, ge=1, le=16, description="How many plans run at once.")
    governance: GovernanceFile = Field(
        default_factory=lambda: GovernanceFile.model_validate({}), description="What an answer must meet."
    )
    fallback: FallbackFile = Field(
        default_factory=lambda: FallbackFile.model_validate({}), description="What happens when all are rejected."
    )
    operator: OperatorFile = Field(
        default_factory=lambda: OperatorFile.model_validate({}), description="Who is told, and how long to wait."
    )
    stronger: str | None = Field(
        None, description="A model for new plans after answers with too little confidence: a name under `models`."
    )
    logs: str | None = Field(None, description="The folder of the logs; `plans` in rlm's own folder, unless told.")

    @field_validator("candidates", mode="before")
    @classmethod
    def _texts_are_plans(cls, value: Any) -> Any:
        return (
            [{"approach": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value
        )
