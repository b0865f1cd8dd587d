"""The data of charts as plain rows.

A trace is untrusted text, and Altair writes texts into a page without escaping them: they are cleaned here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...stats import wilson_interval
from ...text import shorten

if TYPE_CHECKING:
    from ..run import RunRecord

Row = dict[str, Any]

LIMITS = {
    "iterations": ("iterations", "max_iterations"),
    "LLM calls": ("llm_calls", "max_llm_calls"),
    "seconds": ("seconds", "max_duration"),
    "tokens": ("tokens", "max_tokens"),
    "cost": ("cost_usd", "max_cost_usd"),
}
"""The limits of a run: for each, the names of usage and limit in a `budget` event."""

BINS = 5

_UNSAFE = re.compile(r"[^\w .,:;/@+\-…]")


def budget_rows(run: RunRecord) -> list[Row]:
    """Return the usage of each limit that is set, at the start of the first iteration and after each iteration."""
    budgets = run.events(kinds=["budget"])
    first = run.events(limit=1, kinds=["iteration_started"])
    if budgets and first and run.resumed_from is None:
        unused = {name: 0 for name, _ in LIMITS.values()}
        budgets.insert(0, dataclasses.replace(first[0], data=budgets[0].data | unused))
    rows = []
    for event in budgets:
        for limit, (used_name, limit_name) in LIMITS.items():
            used, of = event.data.get(used_name), event.data.get(limit_name)
            if isinstance(used, int | float) and isinstance(of, int | float) and of > 0:
                values = {"iteration": event.data.get("iterations"), "used": used, "of": of, "share": used / of}
                rows.append({"second": event.time - run.started, "limit": limit, **values})
    return rows


def trigger_rows(run: RunRecord) -> list[Row]:
    """Return when the trigger fired, and why."""
    fired = run.events(kinds=["trigger_fired"])
    return [{"second": event.time - run.started, "why": safe(run.resolve(event.data.get("reason")))} for event in fired]


def call_rows(run: RunRecord, depth: int = 0) -> list[Row]:
    """Return the requests of a run and its child runs to models, in order, without replayed ones."""
    rows: list[Row] = [
        {
            "run": safe(run.id),
            "role": safe(call.role),
            "child": depth > 0,
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
    """Return one row for each run."""
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
    """Return, for each bin of confidence, the number of runs and the share that were right."""
    bins: dict[int, list[bool]] = {}
    for run in runs:
        number = min(int((run.confidence or 0.0) * BINS), BINS - 1)
        bins.setdefault(number, []).append(bool(right(run)))
    return [
        {
            "from": number / BINS,
            "to": (number + 1) / BINS,
            "right": sum(values) / len(values),
            "runs": len(values),
            **dict(zip(("low", "high"), wilson_interval(sum(values), len(values)), strict=True)),
        }
        for number, values in sorted(bins.items())
    ]


def safe(text: Any) -> str:
    """Return a text without characters of markup or control characters, cut to 80 characters."""
    return shorten(_UNSAFE.sub("·", str(text or "")), 80)
