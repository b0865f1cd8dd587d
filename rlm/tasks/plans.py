"""The `plans` section of a task file as the settings of plans, and the problems in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..plans.plan import Plan
from ..plans.settings import DEFAULT_COUNT, FallbackConfig, PlanSettings, Thresholds
from ..signatures import Signature
from ..signatures.checks import CheckProblem, read_check
from ..text import suggestion
from . import references
from .errors import TaskProblem
from .models import ROLES, ModelSpec, spec_of
from .schema import PlanFile, PlansFile
from .validation import dotted
from .yaml_document import Document
from .yaml_document import Path as Place


@dataclass(frozen=True)
class TaskPlans:
    """The plans of a task: settings, models that they may name, and references to functions not yet imported."""

    settings: PlanSettings
    models: dict[str, ModelSpec] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    """`module:function` for `propose` and `accept`. The folder of the file is searched first."""

    def ready(self, path: Path | None) -> PlanSettings:
        """Import the functions and return the settings with them. Raise `TaskError` if that fails."""
        functions = {
            name: references.load_function(path, "plans", reference) for name, reference in self.references.items()
        }
        thresholds = dataclasses.replace(self.settings.thresholds, function=functions.get("accept"))
        return dataclasses.replace(self.settings, propose=functions.get("propose"), thresholds=thresholds)


def read_plans(section: PlansFile, folder: Path) -> TaskPlans:
    """Return the plans that a file describes."""
    plans = tuple(_plan(plan) for plan in section.candidates)
    governance = section.governance
    settings = PlanSettings(
        plans=plans,
        count=section.count or len(plans) or DEFAULT_COUNT,
        planner=section.planner,
        weights=section.weights,
        parallel=section.parallel,
        thresholds=Thresholds(
            governance.min_confidence,
            governance.accept_extracted,
            governance.max_cost_usd,
            governance.max_seconds,
            tuple(governance.invariants),
            judge=governance.judge,
        ),
        fallback=FallbackConfig.of(section.fallback.model_dump()),
        operator=section.operator,
        stronger=section.stronger,
        logs=folder / section.logs if section.logs is not None else None,
    )
    models = {name: spec_of(entry, folder) for name, entry in section.models.items()}
    functions = {"propose": section.function, "accept": governance.function}
    return TaskPlans(settings, models, {name: text for name, text in functions.items() if text is not None})


def plan_problems(
    section: PlansFile, signature: Signature | None, tools: Sequence[str], document: Document, folder: Path
) -> Iterator[TaskProblem]:
    """Yield the problems that depend on the rest of the file, or on files beside it."""
    models = [*ROLES, *section.models]
    for path, name in _model_names(section):
        if name is not None and name not in models:
            message = f"{dotted(path)}: there is no model {name!r}{suggestion(name, models)}"
            yield document.problem(message, document.value_place(path))
    for index, plan in enumerate(section.candidates):
        for position, tool in enumerate(plan.tools or ()):
            if tool not in tools:
                path = ("plans", "candidates", index, "tools", position)
                message = f"{dotted(path)}: the task has no tool {tool!r}{suggestion(tool, tools)}"
                yield document.problem(message, document.value_place(path))
    yield from _invariant_problems(section, signature, document)
    functions: list[tuple[Place, str | None]] = [
        (("plans", "function"), section.function),
        (("plans", "governance", "function"), section.governance.function),
    ]
    for path, reference in functions:
        if reference is not None:
            try:
                references.check(folder, reference)
            except references.ImportProblem as error:
                yield document.problem(f"{dotted(path)}: {error}", document.value_place(path))


def _invariant_problems(section: PlansFile, signature: Signature | None, document: Document) -> Iterator[TaskProblem]:
    outputs = [field.name for field in signature.outputs] if signature is not None else None
    inputs = [field.name for field in signature.inputs] if signature is not None else ()
    for index, text in enumerate(section.governance.invariants):
        path = ("plans", "governance", "invariants", index)
        try:
            read_check(text, outputs, inputs)
        except CheckProblem as error:
            yield document.problem(f"{dotted(path)}: {error}", document.place_inside(path, error.position))


def _model_names(section: PlansFile) -> Iterator[tuple[Place, str | None]]:
    yield ("plans", "planner"), section.planner
    yield ("plans", "stronger"), section.stronger
    for index, plan in enumerate(section.candidates):
        yield ("plans", "candidates", index, "model"), plan.model
    if section.governance.judge is not None:
        yield ("plans", "governance", "judge", "model"), section.governance.judge.model


def _plan(section: PlanFile) -> Plan:
    values = section.model_dump(exclude={"tools", "scores"})
    tools = None if section.tools is None else tuple(section.tools)
    return Plan(**values, tools=tools, scores=section.scores, source="file")
