"""Runs that were interrupted: what they had found out is kept in a file of the user's own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ..budgets import Usage
from ..history import REPLHistoryEntry
from ..results import ExecutionResult, Failed
from .state import RunState
from .words import count


def interrupted_result(state: RunState) -> Failed:
    """What is known of a run that was stopped from outside, from its events."""
    with state.lock:
        entries = [
            REPLHistoryEntry(one.number, None, one.code, one.output, one.success, one.calls) for one in state.iterations
        ]
        if state.phase == "running":
            calls = tuple(state.records)
            entries.append(REPLHistoryEntry(state.iteration, None, state.code, "[interrupted]", False, calls))
        usage = Usage(seconds=state.seconds(), llm_calls=int(state.budget.get("llm_calls") or 0))
        return Failed("interrupted", None, tuple(entries), usage=usage, run_id=state.run_id)


def keep(result: ExecutionResult[Any], task_file: str) -> str:
    """Write the result of an interrupted run to a file, and say where it is and how to go on."""
    name = re.sub(r"[^\w-]", "", result.run_id)
    if not name:
        return f"Interrupted before the run began. To start it: rlm run {task_file}"
    done = count(len(getattr(result, "history", ())), "iteration")
    target = _folder() / f"{name}.json"
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(result.to_json() + "\n")
        kept = f"its history ({done}) is kept in {target}"
    except OSError as error:
        kept = f"its history ({done}) could not be kept: {error}"
    return f"Interrupted. Run {name}: {kept}\nTo start again: rlm run {task_file}"


def _folder() -> Path:
    own = os.environ.get("RLM_STATE_DIR")
    state = os.environ.get("XDG_STATE_HOME")
    return Path(own) if own else (Path(state) if state else Path.home() / ".local" / "state") / "rlm" / "interrupted"
