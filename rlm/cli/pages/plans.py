"""Plans: the candidates, the verdicts and the reasons, for the views of a run and for its ending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...events import (
    EscalationAnswered,
    Event,
    FailedThreshold,
    OperatorAwaited,
    PlanAnswered,
    PlanEscalated,
    PlanRejected,
    PlansCompared,
    PlanSelected,
    from_record,
)
from ..console import clean, duration, one_line
from .tables import facts_table, section

if TYPE_CHECKING:
    from ...traces import RunRecord

_INDENT = "\n" + " " * 11
_NAME, _REASON = 70, 200
_KINDS = (
    *("plans_compared", "plan_selected", "plan_rejected", "plan_answered"),
    *("plan_escalated", "operator_awaited", "escalation_answered"),
)


def plan_lines(event: Event) -> str:
    """Return the lines of an event of a run with plans; an empty text for other events."""
    match event:
        case PlansCompared():
            ranked = [f"{plan.rank}. {plan.score:.2f}  {one_line(plan.name, _NAME)}" for plan in event.candidates]
            dropped = [f"left out: {one_line(reason, _REASON)}" for reason in event.dropped]
            return _INDENT.join([f"plans, round {event.round}", *ranked, *dropped])
        case PlanSelected():
            return f"plan {event.rank} is run: {one_line(event.name, _NAME)}"
        case PlanRejected():
            head = f"plan {event.rank} rejected: {one_line(event.name, _NAME)}"
            return _INDENT.join([head, *(failed_text(threshold) for threshold in event.failed_thresholds)])
        case PlanEscalated():
            lines = [f"escalated as {clean(event.log_entry_id)}: {one_line(event.escalation_reason, _REASON)}"]
            lines += [one_line(event.fallback_details, _REASON)] if event.fallback_details else []
            return _INDENT.join(lines)
        case OperatorAwaited():
            waiting = f"waiting for an operator, {duration(event.timeout)} at most; then: {clean(event.default)}"
            how = f"rlm escalations show {event.escalation_id} --logs {event.logs}"
            return _INDENT.join([waiting, clean(how), "and approve, reject or retry in place of show"])
        case EscalationAnswered():
            return f"answer: {clean(event.answer)} ({answered_by(event.answered_by)})"
        case PlanAnswered(name=None):
            return f"an answer of the operator's own ({answered_by(str(event.accepted_by))})"
        case PlanAnswered():
            return f"plan accepted: {one_line(str(event.name), _NAME)} ({answered_by(str(event.accepted_by))})"
        case _:
            return ""


def decision_lines(run: RunRecord) -> list[RenderableType]:
    """Return the recorded decisions of a run with plans, in order; nothing for other runs."""
    recorded = run.events(kinds=_KINDS)
    texts = [plan_lines(from_record(event.kind, run.id, event.time, run.resolve(event.data))) for event in recorded]
    lines = [Text(text.replace(_INDENT, "\n  ")) for text in texts]
    return section("Plans", *lines) if lines else []


def failed_text(failed: FailedThreshold) -> str:
    """Return one threshold that was not met: `confidence: wanted 0.8, was 0.41`."""
    wanted, actual = one_line(_value(failed.threshold), _REASON), one_line(_value(failed.actual), _REASON)
    return f"{clean(failed.metric)}: wanted {wanted}, was {actual}"


def answered_by(name: str) -> str:
    """Return who accepted or rejected an answer."""
    known = {"thresholds": "it meets the thresholds", "timeout": "the default: nobody answered in time"}
    return known.get(name, f"by the {clean(name)}")


def plan_part(plan: Mapping[str, Any]) -> Table:
    """Return which plan answered and which were rejected, for the ending of a run."""
    rows: list[tuple[str, str]] = []
    if plan.get("name"):
        by = answered_by(str(plan.get("accepted_by")))
        rows.append(("plan", f"{one_line(plan['name'], _NAME)} ({by})"))
    elif plan.get("accepted_by"):
        rows.append(("answer", f"{answered_by(str(plan['accepted_by']))}, in place of all plans"))
    for rejected in plan.get("rejected") or ():
        reasons = _reasons(rejected["failed_thresholds"])
        rows.append(("rejected", f"{one_line(rejected['name'], _NAME)}: {reasons}"))
    rows += [("escalation", clean(str(escalation))) for escalation in plan.get("escalations") or ()]
    return facts_table((name, Text(text)) for name, text in rows)


def _reasons(failed: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(failed_text(FailedThreshold.from_dict(threshold)) for threshold in failed)


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
