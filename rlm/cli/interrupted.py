"""Runs that were interrupted: what they had found out, and how to go on."""

from __future__ import annotations

from typing import Any

from ..budgets import Usage
from ..history import REPLHistoryEntry
from ..results import ExecutionResult, Failed, FailureCause
from .formatting import count
from .progress.state import RunState


def interrupted_result(state: RunState) -> Failed:
    """What is known of a run that was stopped from outside, from its events."""
    with state.lock:
        entries = [
            REPLHistoryEntry(one.number, one.reasoning, one.code, one.output, one.success, one.calls)
            for one in state.iterations
        ]
        if state.phase == "running":
            calls = tuple(state.records)
            entries.append(REPLHistoryEntry(state.iteration, None, state.code, "[interrupted]", False, calls))
        used = state.usage
        usage = Usage(used.tokens_in, used.tokens_out, used.cost_usd, state.seconds(), used.llm_calls)
        return Failed(
            "interrupted",
            history=tuple(entries),
            cause=FailureCause("interrupted"),
            iterations=len(entries),
            usage=usage,
            run_id=state.run_id,
        )


def how_to_go_on(result: ExecutionResult[Any], task_file: str) -> str:
    """What to say of an interrupted run: that nothing is lost, and how to go on."""
    from ..events import ignore
    from ..traces.default_writer import default_observer

    if not result.run_id:
        return f"Interrupted before the run began. To start it: rlm run {task_file}"
    done = count(len(getattr(result, "history", ())), "iteration")
    if default_observer() is ignore:
        return f"Interrupted after {done}. Nothing was recorded (RLM_TRACE is off). To start again: rlm run {task_file}"
    return f"Interrupted. Run {result.run_id} is on record ({done}).\nTo go on: rlm resume {result.run_id}"
