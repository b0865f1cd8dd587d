"""Plans in words: the candidates, the verdicts and the reasons, for the views of a run and for its ending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..formatting import clean, duration, one_line
from ..progress.state import Event

if TYPE_CHECKING:
    from ...traces import RunRecord

_INDENT = "\n" + " " * 11
_NAME, _REASON = 70, 200
_KINDS = (
    *("plans_compared", "plan_selected", "plan_rejected", "plan_answered"),
    *("plan_escalated", "operator_awaited", "escalation_answered"),
)


def plan_lines(event: Event) -> str:
    """What a run with plans has to say at an event, in one line or several; nothing at all others."""
    data = event.data
    match event.kind:
        case "plans_compared":
            ranked = [
                f"{one['rank']}. {one['score']:.2f}  {one_line(one['name'], _NAME)}" for one in data["candidates"]
            ]
            dropped = [f"left out: {one_line(one, _REASON)}" for one in data.get("dropped") or ()]
            return _INDENT.join([f"plans, round {data['round']}", *ranked, *dropped])
        case "plan_selected":
            return f"plan {data['rank']} is run: {one_line(data['plan']['name'], _NAME)}"
        case "plan_rejected":
            head = f"plan {data['rank']} rejected: {one_line(data['name'], _NAME)}"
            return _INDENT.join([head, *(failed_text(one) for one in data["failed_thresholds"])])
        case "plan_escalated":
            lines = [f"escalated as {clean(data['log_entry_id'])}: {one_line(data['escalation_reason'], _REASON)}"]
            lines += [one_line(data["fallback_details"], _REASON)] if data.get("fallback_details") else []
            return _INDENT.join(lines)
        case "operator_awaited":
            said = f"an operator is waited for, {duration(data['timeout'])} at most; then: {clean(data['default'])}"
            how = f"rlm escalations show {data['escalation_id']} --logs {data['logs']}"
            return _INDENT.join([said, clean(how), "and approve, reject or retry in place of show"])
        case "escalation_answered":
            return f"answer: {clean(data['answer'])} ({answered_by(data['answered_by'])})"
        case "plan_answered":
            if data["name"] is None:
                return f"an answer of the operator's own ({answered_by(data['accepted_by'])})"
            return f"plan accepted: {one_line(data['name'], _NAME)} ({answered_by(data['accepted_by'])})"
    return ""


def decided(run: RunRecord) -> list[RenderableType]:
    """What was decided in a run with plans that is on record, in order; nothing for other runs."""
    from ...events import Event

    told = [plan_lines(Event(one.kind, run.id, run.resolve(one.data))) for one in run.events(kinds=_KINDS)]
    lines = [Text(one.replace(_INDENT, "\n  ")) for one in told]
    return [Text(""), Rule(Text("Plans"), align="left", style="dim"), *lines] if lines else []


def failed_text(failed: Mapping[str, Any]) -> str:
    """One threshold that failed: `confidence: wanted 0.8, was 0.41`."""
    wanted, was = (one_line(_value(failed.get(name)), _REASON) for name in ("threshold", "actual"))
    return f"{clean(str(failed.get('metric')))}: wanted {wanted}, was {was}"


def answered_by(who: str) -> str:
    """Who let an answer pass, or did not."""
    known = {"thresholds": "it meets the thresholds", "timeout": "the default: nobody answered in time"}
    return known.get(who, f"by the {clean(who)}")


def plan_part(plan: Mapping[str, Any]) -> Table:
    """Which plan answered and what was rejected, for the ending of a run."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    if plan.get("name"):
        by = answered_by(str(plan.get("accepted_by")))
        table.add_row("plan", Text(f"{one_line(plan['name'], _NAME)} ({by})"))
    elif plan.get("accepted_by"):
        table.add_row("answer", Text(f"{answered_by(str(plan['accepted_by']))}, in place of all plans"))
    for one in plan.get("rejected") or ():
        table.add_row("rejected", Text(f"{one_line(one['name'], _NAME)}: {_reasons(one['failed_thresholds'])}"))
    for one in plan.get("escalations") or ():
        table.add_row("escalation", Text(clean(str(one))))
    return table


def _reasons(failed: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(failed_text(one) for one in failed)


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
