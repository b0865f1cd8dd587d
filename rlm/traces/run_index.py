"""The index of a run under way: the parents of its events, and the columns of its row in the table of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..events import (
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    Event,
    IterationStarted,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    RunEnded,
    RunInterrupted,
    RunStarted,
    SignatureInfo,
    TriggerFired,
)
from ..results import Failed
from .encoding import HEAD, SHORT
from .schema import answer_text

Scrub = Callable[[str], str]


@dataclass(slots=True)
class RunIndex:
    """The open events of a run, by which later events find their parents, and the columns of its row."""

    number: int
    sequence: int = 0
    iteration: int | None = None
    cell: int | None = None
    trigger: int | None = None
    asked: dict[int, int] = field(default_factory=dict)
    calls: dict[int | None, int] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    """The columns of its row that are set so far; written once in each batch."""

    changed: bool = False


def parent_of(run: RunIndex, event: Event) -> int | None:
    """Return the sequence number of the enclosing event, and register events that enclose others."""
    here = run.sequence
    match event:
        case RunStarted() | RunEnded():
            return None
        case IterationStarted():
            run.iteration, run.cell = here, None
            return None
        case ModelAsked():
            run.asked[event.id] = here
            return run.calls.get(event.call) or run.trigger or run.iteration
        case ModelAnswered() | ModelFailed():
            return run.asked.pop(event.id, None) or run.iteration
        case CellStarted():
            run.cell = here
            return run.iteration
        case CellEnded():
            cell, run.cell = run.cell, None
            return cell
        case CallStarted():
            run.calls[event.id] = here
            return run.cell or run.iteration
        case CallEnded():
            return run.calls.pop(event.id, None)
        case TriggerFired():
            run.trigger, run.iteration = here, None
            return None
        case _:
            return run.trigger or run.iteration


def update_row(run: RunIndex, event: Event, scrub: Scrub) -> None:
    """Update the columns of the run's row. `scrub` replaces secrets in a text."""
    row = run.row
    row["seen"], row["events"], run.changed = event.time, run.sequence, True
    match event:
        case RunStarted():
            row["name"] = scrub(_name(event.signature))
            row["started"] = event.time
            row["parent"], row["parent_call"] = event.parent, event.parent_call
            row["resumed_from"] = event.resumed_from
            row["depth"] = event.depth
            task = _task(event.task)
            row["task"] = None if task is None else scrub(task)
            row["model"] = scrub(event.models.main)
        case IterationStarted():
            row["iterations"] = event.iteration
        case ModelAnswered(past=False):  # a replayed reply costs nothing
            _count_model_call(row, event)
        case BudgetUsed():
            _update(row, event, ("iterations", "llm_calls", "tokens", "cost_usd", "seconds"))
        case RunInterrupted():
            row["ending"] = "unfinished"
        case RunEnded(result=result):
            row["ended"] = event.time
            row["ending"] = event.ending.lower()
            reason = getattr(result, "reason", None)
            row["reason"] = None if reason is None else _head(scrub(str(reason)))
            row["confidence"] = result.confidence
            # A run with plans has no iterations itself: its result has those of the accepted plan.
            row["iterations"] = max(row.get("iterations", 0), result.iterations)
            row["answer"] = None if isinstance(result, Failed) else answer_text(result.outputs_to_dict(), scrub)
            _update(row, result.usage, ("llm_calls", "cost_usd", "seconds", "tokens"))
        case _:
            pass


def _name(signature: SignatureInfo) -> str:
    """Return the name of a signature; a signature given as text has none, and is called by its fields."""
    if signature.name not in ("", "Task"):
        return signature.name
    return f"{', '.join(signature.inputs)} -> {', '.join(signature.outputs)}"[:200]


def _count_model_call(row: dict[str, Any], event: ModelAnswered) -> None:
    row["own_model_calls"] = row.get("own_model_calls", 0) + 1
    row["own_tokens_in"] = row.get("own_tokens_in", 0) + event.tokens_in
    row["own_tokens_out"] = row.get("own_tokens_out", 0) + event.tokens_out
    if event.cost_usd is not None:
        row["own_cost_usd"] = (row.get("own_cost_usd") or 0.0) + event.cost_usd


def _update(row: dict[str, Any], usage: object, names: tuple[str, ...]) -> None:
    row.update({name: value for name in names if (value := getattr(usage, name)) is not None})


def _head(text: str) -> str:
    return text if len(text) <= SHORT else text[:HEAD]


def _task(task: Mapping[str, Any] | None) -> str | None:
    """Return the task file of a run, or the name of the plan that it executes."""
    if not task:
        return None
    if task.get("path"):
        return str(task["path"])
    plan = task.get("plan")
    return f"plan: {plan.get('name')}" if isinstance(plan, Mapping) else None
