"""`Task`: everything that a run needs. `loader.py` reads one from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import Limits

from ..agreement.settings import AgreementSettings
from ..budgets import FallbackTrigger
from ..plans.plan import Plan
from ..reading import MapPlan, Mode
from ..signatures import Signature
from . import references
from .errors import TaskProblem
from .models import ROLES, AdapterSpec, Models, ModelSpec

if TYPE_CHECKING:
    from ..extraction.confidence import Scorer
    from ..mcp.servers import McpServers
    from ..repl.learned import Learned
    from .plans import TaskPlans


@dataclass(frozen=True)
class Task:
    """A signature, typed inputs, models, and limits."""

    signature: Signature
    inputs: dict[str, Any]
    models: Models
    trigger: FallbackTrigger = field(default_factory=FallbackTrigger)
    limits: Limits = field(default_factory=Limits)
    isolation: str = "auto"
    policy: str = "enforce"
    tool_references: tuple[str, ...] = ()
    """`module:function`. The folder of the file is searched first."""

    mcp: McpServers | None = None
    """The MCP servers whose tools the code may call."""

    checks: list[str] = field(default_factory=list)
    verify: bool = False
    """Whether a second program checks what was submitted."""

    packages: Path | None = None
    """A requirements or lock file, whose packages the code can import."""

    save: dict[str, str] = field(default_factory=dict)
    """Where files among the outputs are copied to, by output: absolute paths; folders end with a slash."""

    overwrite: bool = False
    """Whether `save` may write over files."""

    depth: int = 1
    scorer: Scorer | None = None
    """The calibrator that scores extracted answers. Default: a formula."""

    adapter: AdapterSpec | None = None
    """The adapter of typed queries. None asks for JSON, and constrains local models to the type."""

    mode: Mode = "repl"
    """Who writes the first cell of a run: see `rlm.reading`."""

    map: MapPlan | None = None
    plans: TaskPlans | None = None
    agreement: AgreementSettings | None = None
    """Several independent runs, whose answers are compared. None is one run."""

    guidance: str | None = None
    """The approach of a plan, for a task that carries out one plan alone."""

    learned: Learned | None = None
    """What `rlm optimize` has found for it."""

    path: Path | None = None
    source: dict[str, Any] | None = None
    """The file that the task was read from, for the record of its runs: see `loader.Recorded`."""

    warnings: tuple[TaskProblem, ...] = ()
    """Parts of the file that are valid and probably not meant."""

    @property
    def asked(self) -> dict[str, ModelSpec]:
        """Return every model that may be asked, by role: those of the task, of the adapter and of the plans."""
        models = {role: getattr(self.models, role) for role in ROLES}
        if self.adapter is not None and self.adapter.model is not None:
            models["adapter"] = self.adapter.model
        return (self.plans.models if self.plans is not None else {}) | models

    def by_plan(self, plan: Plan, *, keep_model: bool = False) -> Task:
        """Return the task with the approach, tools and model of one of its plans; `keep_model` keeps the model."""
        main, others = self.models.main, self.plans.models if self.plans is not None else {}
        if not keep_model and plan.model is not None:
            main = getattr(self.models, plan.model) if plan.model in ROLES else others.get(plan.model, main)
        if not keep_model and plan.temperature is not None and main.scripted is None:
            main = replace(main, options={**main.options, "temperature": plan.temperature})
        tools = self.tool_references
        if plan.tools is not None:
            tools = tuple(tool for tool in tools if tool.partition(":")[2] in plan.tools)
        return replace(
            self,
            models=replace(self.models, main=main),
            tool_references=tools,
            plans=None,
            agreement=None,
            guidance=plan.approach,
            source={**(self.source or {}), "plan": plan.to_dict()},
        )

    @cached_property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """Import the tools and return them by name. Raise `TaskError` if one cannot be imported."""
        return {
            reference.partition(":")[2]: references.load_function(self.path, "tools", reference)
            for reference in self.tool_references
        }
