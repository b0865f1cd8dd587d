"""What charts of recorded runs show, as plain rows.

A trace is hostile text, and a chart may be put into a page as it is: texts are cleaned here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import RunRecord

Row = dict[str, Any]

LIMITS = {
    "iterations": ("iterations", "max_iterations"),
    "LLM calls": ("llm_calls", "max_llm_calls"),
    "seconds": ("seconds", "max_duration"),
    "tokens": ("tokens", "max_tokens"),
    "cost": ("cost_usd", "max_cost_usd"),
}
"""The limits of a run: how much is used, and of what, by the names of the `budget` event."""

BINS = 5

_UNSAFE = re.compile(r"[^\w .,:;/@+\-…]")


def budget_rows(run: RunRecord) -> list[Row]:
    """What was used of each limit that is on, when the first iteration began and after each one."""
    told = run.events(kinds=["budget"])
    began = run.events(limit=1, kinds=["iteration_started"])
    if told and began and run.resumed_from is None:
        nothing = {used: 0 for used, _ in LIMITS.values()}
        told.insert(0, dataclasses.replace(began[0], data=told[0].data | nothing))
    rows = []
    for event in told:
        for limit, (name, most) in LIMITS.items():
            used, of = event.data.get(name), event.data.get(most)
            if isinstance(used, int | float) and isinstance(of, int | float) and of > 0:
                about = {"iteration": event.data.get("iterations"), "used": used, "of": of, "share": used / of}
                rows.append({"second": event.time - run.started, "limit": limit, **about})
    return rows


def trigger_rows(run: RunRecord) -> list[Row]:
    """When the trigger fired, and why."""
    fired = run.events(kinds=["trigger_fired"])
    return [{"second": event.time - run.started, "why": safe(run.filled(event.data.get("reason")))} for event in fired]


def call_rows(run: RunRecord, depth: int = 0) -> list[Row]:
    """The questions to models of a run and of those it started, in order. What the record answered is left out."""
    rows: list[Row] = [
        {
            "run": safe(run.id),
            "role": safe(call.role) + (" of a child run" if depth else ""),
            "model": safe(call.model),
            "iteration": call.iteration,
            "read": call.tokens_in,
            "written": call.tokens_out,
            "tokens": call.tokens_in + call.tokens_out,
            "cost": call.cost_usd,
            "seconds": call.seconds,
            "started": call.started,
        }
        for call in run.model_calls
        if not call.past
    ]
    for child in run.children:
        rows += call_rows(child, depth + 1)
    rows.sort(key=lambda row: row["started"])
    return [{**row, "call": number} for number, row in enumerate(rows, 1)]


def run_rows(runs: Iterable[RunRecord]) -> list[Row]:
    """One row a run."""
    return [
        {
            "run": safe(run.id),
            "task": safe(run.task or run.name),
            "ending": safe(run.ending),
            "confidence": run.confidence,
            "iterations": run.iterations_used,
            "tokens": run.tokens,
        }
        for run in runs
    ]


def calibration_rows(runs: Iterable[RunRecord], right: Callable[[RunRecord], bool]) -> list[Row]:
    """For runs of about the same confidence, how many there are and how often they were right."""
    groups: dict[int, list[bool]] = {}
    for run in runs:
        group = min(int((run.confidence or 0.0) * BINS), BINS - 1)
        groups.setdefault(group, []).append(bool(right(run)))
    return [
        {"from": group / BINS, "to": (group + 1) / BINS, "right": sum(found) / len(found), "runs": len(found)}
        for group, found in sorted(groups.items())
    ]


def safe(text: Any) -> str:
    """A text without what could be markup or a control character, and not long."""
    words = _UNSAFE.sub("·", str(text or ""))
    return words if len(words) <= 80 else f"{words[:79]}…"
