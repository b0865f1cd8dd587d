"""`Task`: everything that a run needs. `loading.py` reads one from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import Limits

from ..budgets import FallbackTrigger
from ..plans.plan import Plan
from ..signatures import Signature
from . import references
from .adapters import AdapterSpec
from .errors import TaskError, TaskProblem
from .models import ROLES, Models, ModelSpec
from .plans import TaskPlans

if TYPE_CHECKING:
    from ..extraction.confidence import Scorer


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
    scorer: Scorer | None = None
    """What scores extracted answers, if not the formula: a calibrator."""

    adapter: AdapterSpec | None = None
    """What puts typed questions to the models; None asks for JSON, and holds models that run here to the type."""

    plans: TaskPlans | None = None
    guidance: str | None = None
    """How to go about it, in words: the approach of one plan, where that alone is run."""

    path: Path | None = None
    source: dict[str, Any] | None = None
    """What the task was read from, for the record of its runs: see `loading.Recorded`."""

    @property
    def asked(self) -> dict[str, ModelSpec]:
        """Every model that may be asked, by what it is for: the three roles, the adapter's own, those of the plans."""
        found = {role: getattr(self.models, role) for role in ROLES}
        if self.adapter is not None and self.adapter.model is not None:
            found["adapter"] = self.adapter.model
        return (self.plans.models if self.plans is not None else {}) | found

    def by_plan(self, plan: Plan, *, keep_model: bool = False) -> Task:
        """The task as one of its plans does it: its approach, tools and model, unless the model is to be kept."""
        main, others = self.models.main, self.plans.models if self.plans is not None else {}
        if not keep_model and plan.model is not None:
            main = getattr(self.models, plan.model) if plan.model in ROLES else others.get(plan.model, main)
        if not keep_model and plan.temperature is not None and main.scripted is None:
            main = replace(main, options={**main.options, "temperature": plan.temperature})
        tools = self.tool_references
        if plan.tools is not None:
            tools = tuple(one for one in tools if one.partition(":")[2] in plan.tools)
        return replace(
            self,
            models=replace(self.models, main=main),
            tool_references=tools,
            plans=None,
            guidance=plan.approach,
            source={**(self.source or {}), "plan": plan.to_dict()},
        )

    @cached_property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The tools by name. They are imported here, when they are first asked for; `TaskError` if they cannot be."""
        found: dict[str, Callable[..., Any]] = {}
        folder = self.path.parent if self.path is not None else Path.cwd()
        for reference in self.tool_references:
            where = f"{self.path}: tools: {reference}"
            try:
                tool = references.fetch(folder, reference)
            except references.ImportProblem as error:
                raise TaskError([TaskProblem(where, str(error))]) from error
            if not callable(tool):
                raise TaskError([TaskProblem(where, f"is no function but {type(tool).__name__}")])
            found[reference.partition(":")[2]] = tool
        return found
