"""Recorded runs as the tool `show_run` gives them: code, output and ending, cut to what a context holds."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from ..redaction import Redactor
from ..text import cut_middle
from ..traces import UnknownRun, find
from .sessions import Sessions, UnknownQuestion

_MAX_CODE, _MAX_OUTPUT = 4_000, 2_000
_MAX_ITERATIONS = 60


class Step(BaseModel):
    """One iteration of a run."""

    iteration: int
    reasoning: str | None
    code: str
    output: str | None = Field(description="what the cell printed, cut in the middle")
    success: bool
    calls: list[str] = Field(description="the host functions that it called")


class RunTrace(BaseModel):
    """A recorded run."""

    run_id: str
    session_id: str
    ending: str
    steps: list[Step]
    more_steps: int = Field(description="how many of its steps are left out; ask for them with `first`")


def show_run(run_id: str, first: int, sessions: Sessions, folders: Any) -> RunTrace:
    """Return what is on record of a run. Raise `UnknownQuestion` for one that is not about files that may be read."""
    unknown = UnknownQuestion(f"there is no run {run_id!r:.60} about files that may be read here")
    if not run_id.isalnum():
        raise unknown
    try:
        run = find(run_id)
    except UnknownRun:
        raise unknown from None
    session_id = (run.resolve(run.beginning.get("task") or {}) or {}).get("session")
    if run.id != run_id or not isinstance(session_id, str):
        raise unknown
    sessions.paths_of(session_id, folders)
    found = [step for step in run.iterations if step.number >= first]
    redact = Redactor().text
    steps = [
        Step(
            iteration=step.number,
            reasoning=None if step.reasoning is None else cut_middle(redact(step.reasoning), _MAX_OUTPUT),
            code=cut_middle(redact(step.code), _MAX_CODE),
            output=None if step.output is None else cut_middle(redact(step.output), _MAX_OUTPUT),
            success=step.success,
            calls=[call.name for call in step.calls][:100],
        )
        for step in found[:_MAX_ITERATIONS]
    ]
    left = len(found) - len(steps)
    return RunTrace(run_id=run.id, session_id=session_id, ending=run.ending, steps=steps, more_steps=left)
