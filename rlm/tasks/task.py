"""`Task`: everything that a run needs. `loading.py` reads one from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sandbox import Limits

from ..budgets import FallbackTrigger
from ..signatures import Signature
from . import imports
from .models import Models
from .plans import TaskPlans
from .problems import TaskError, TaskProblem


@dataclass(frozen=True)
class Task:
    """What to run: typed inputs, what must come out, who is asked, and what it may cost."""

    signature: Signature
    inputs: dict[str, Any]
    models: Models
    trigger: FallbackTrigger = field(default_factory=FallbackTrigger)
    limits: Limits = field(default_factory=Limits)
    isolation: str = "auto"
    policy: str = "enforce"
    tool_references: tuple[str, ...] = ()
    """`module:function`, looked for beside the file first."""

    checks: list[str] = field(default_factory=list)
    depth: int = 1
    plans: TaskPlans | None = None
    path: Path | None = None
    source: dict[str, Any] | None = None
    """What the task was read from, for the record of its runs: see `loading.Recorded`."""

    @cached_property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The tools by name. They are imported here, when they are first asked for; `TaskError` if they cannot be."""
        found: dict[str, Callable[..., Any]] = {}
        folder = self.path.parent if self.path is not None else Path.cwd()
        for reference in self.tool_references:
            where = f"{self.path}: tools: {reference}"
            try:
                tool = imports.fetch(folder, reference)
            except imports.ImportProblem as error:
                raise TaskError([TaskProblem(where, str(error))]) from error
            if not callable(tool):
                raise TaskError([TaskProblem(where, f"is no function but {type(tool).__name__}")])
            found[reference.partition(":")[2]] = tool
        return found
