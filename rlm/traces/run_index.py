"""What has to be known of a run while it is recorded: what its events happen under, and the columns of its row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .schema import answer_text

if TYPE_CHECKING:
    from ..events import Event


@dataclass(slots=True)
class Progress:
    """What has to be known of a run while it goes on."""

    number: int
    sequence: int = 0
    iteration: int | None = None
    cell: int | None = None
    trigger: int | None = None
    asked: dict[Any, int] = field(default_factory=dict)
    calls: dict[Any, int] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    """Columns of its row; written once a batch."""

    changed: bool = False


def parent_of(run: Progress, event: Event) -> int | None:
    """The event that this one happened under; remembers the events that others happen under."""
    data, here = event.data, run.sequence
    match event.kind:
        case "run_started":
            return None
        case "iteration_started":
            run.iteration, run.cell = here, None
            return None
        case "model_asked":
            run.asked[data.get("id")] = here
            return run.calls.get(data.get("call")) or run.trigger or run.iteration
        case "model_answered" | "model_failed":
            return run.asked.pop(data.get("id"), None) or run.iteration
        case "cell_started":
            run.cell = here
            return run.iteration
        case "cell_ended":
            cell, run.cell = run.cell, None
            return cell
        case "call_started":
            run.calls[data.get("id")] = here
            return run.cell or run.iteration
        case "call_ended":
            return run.calls.pop(data.get("id"), None)
        case "trigger_fired":
            run.trigger, run.iteration = here, None
            return None
        case "run_ended":
            return None
        case _:
            return run.trigger or run.iteration


def count(run: Progress, event: Event, data: dict[str, Any], when: float) -> None:
    """Keep the columns of the run's row up to date."""
    row = run.row
    row["seen"], row["events"], run.changed = when, run.sequence, True
    match event.kind:
        case "run_started":
            signature, task = data.get("signature"), data.get("task")
            row["name"] = _name(signature)
            row["started"] = when
            row.update({name: data.get(name) for name in ("parent", "parent_call", "resumed_from")})
            row["depth"] = data.get("depth") or 0
            row["task"] = _task(task) if isinstance(task, dict) else None
            models = data.get("models")
            row["model"] = str(models["main"]) if isinstance(models, dict) and models.get("main") else None
        case "iteration_started":
            row["iterations"] = data.get("iteration") or 0
        case "model_answered" if not data.get("past"):  # what an earlier run was answered is not paid for again
            _count_model(row, data)
        case "budget":
            _take(row, data, ("iterations", "llm_calls", "tokens", "cost_usd", "seconds"))
        case "run_interrupted":
            row["ending"] = "unfinished"
        case "run_ended":
            row["ended"] = when
            row["ending"] = str(data.get("ending") or "ended").lower()
            row["reason"] = _words(data.get("reason"))
            row["confidence"] = data.get("confidence")
            result = data.get("result")
            row["answer"] = answer_text(result)
            usage = result.get("usage") if isinstance(result, dict) else None
            if isinstance(usage, dict):
                _take(row, usage, ("llm_calls", "cost_usd", "seconds"))
                row["tokens"] = (usage.get("tokens_in") or 0) + (usage.get("tokens_out") or 0)


def _name(signature: Any) -> str:
    """The name of a signature; one that was given as text has none, and is called by its fields."""
    if not isinstance(signature, dict):
        return str(signature or "")
    if signature.get("name") not in (None, "", "Task"):
        return str(signature["name"])
    sides = (", ".join(map(str, signature.get(side) or ())) for side in ("inputs", "outputs"))
    return " -> ".join(sides)[:200]


def _count_model(row: dict[str, Any], data: dict[str, Any]) -> None:
    row["own_model_calls"] = row.get("own_model_calls", 0) + 1
    for name in ("tokens_in", "tokens_out"):
        row[f"own_{name}"] = row.get(f"own_{name}", 0) + (data.get(name) or 0)
    if data.get("cost_usd") is not None:
        row["own_cost_usd"] = (row.get("own_cost_usd") or 0.0) + data["cost_usd"]


def _take(row: dict[str, Any], data: dict[str, Any], names: tuple[str, ...]) -> None:
    row.update({name: data[name] for name in names if data.get(name) is not None})


def _words(reason: Any) -> str | None:
    if isinstance(reason, dict):
        return str(reason.get("head") or reason)
    return None if reason is None else str(reason)


def _task(task: dict[str, Any]) -> str | None:
    """The file that a run was started from, or the plan that it carries out."""
    if task.get("path"):
        return str(task["path"])
    plan = task.get("plan")
    return f"plan: {plan.get('name')}" if isinstance(plan, dict) else None
