"""From the `plans:` of a task file to the settings of its plans, with what is wrong and where."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..plans.escalation import STRATEGIES, FallbackConfig
from ..plans.plan import Plan, Scores, Weights
from ..plans.settings import DEFAULT_COUNT, Judge, Operator, PlanSettings, Thresholds
from ..signatures import Signature
from . import references
from .checks import CheckProblem, read_check
from .errors import TaskError, TaskProblem, suggestion
from .models import ROLES, ModelSpec, spec_of
from .schema.plans import JudgeFile, PlanFile
from .schema.task import PlansFile
from .validation import dotted
from .yaml_document import Document
from .yaml_document import Path as Place


@dataclass(frozen=True)
class TaskPlans:
    """The plans of a task: their settings, the models that they may name, and functions that are not imported yet."""

    settings: PlanSettings
    models: dict[str, ModelSpec] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    """`module:function` for `propose` and `accept`, looked for beside the file first."""

    def ready(self, path: Path | None) -> PlanSettings:
        """The settings with their functions, which are imported here. Raises `TaskError`."""
        folder = path.parent if path is not None else Path.cwd()
        found: dict[str, Callable[..., Any]] = {}
        for name, reference in self.references.items():
            where = f"{path}: plans: {reference}"
            try:
                function = references.fetch(folder, reference)
            except references.ImportProblem as error:
                raise TaskError([TaskProblem(where, str(error))]) from error
            if not callable(function):
                raise TaskError([TaskProblem(where, f"is no function but {type(function).__name__}")])
            found[name] = function
        thresholds = dataclasses.replace(self.settings.thresholds, function=found.get("accept"))
        return dataclasses.replace(self.settings, propose=found.get("propose"), thresholds=thresholds)


def read_plans(written: PlansFile, folder: Path) -> TaskPlans:
    """The plans that a file describes."""
    plans = tuple(_plan(one) for one in written.candidates)
    references = {"propose": written.function, "accept": written.governance.function}
    settings = PlanSettings(
        plans=plans,
        count=written.count or len(plans) or DEFAULT_COUNT,
        planner=written.planner,
        weights=Weights(**written.weights.model_dump()),
        parallel=written.parallel,
        thresholds=_thresholds(written),
        fallback=FallbackConfig(
            written.fallback.fallback_enabled,
            STRATEGIES[written.fallback.default_fallback_strategy],
            written.fallback.rounds,
        ),
        operator=Operator(
            tuple(written.operator.command),
            written.operator.webhook,
            written.operator.timeout,
            written.operator.default,
        ),
        stronger=written.stronger,
        logs=folder / written.logs if written.logs is not None else None,
    )
    models = {name: spec_of(entry, folder) for name, entry in written.models.items()}
    return TaskPlans(settings, models, {name: one for name, one in references.items() if one is not None})


def plan_problems(
    written: PlansFile, signature: Signature | None, tools: Sequence[str], document: Document, folder: Path
) -> Iterator[TaskProblem]:
    """What is wrong with the plans that only a look at the rest of the file, or beside it, can tell."""
    models = [*ROLES, *written.models]
    for path, name in _model_names(written):
        if name is not None and name not in models:
            message = f"{dotted(path)}: there is no model {name!r}{suggestion(name, models)}"
            yield document.problem(message, document.value_place(path))
    for index, plan in enumerate(written.candidates):
        for position, tool in enumerate(plan.tools or ()):
            if tool not in tools:
                path = ("plans", "candidates", index, "tools", position)
                message = f"{dotted(path)}: the task has no tool {tool!r}{suggestion(tool, tools)}"
                yield document.problem(message, document.value_place(path))
    yield from _invariant_problems(written, signature, document)
    functions: list[tuple[Place, str | None]] = [
        (("plans", "function"), written.function),
        (("plans", "governance", "function"), written.governance.function),
    ]
    for path, reference in functions:
        if reference is not None:
            try:
                references.look(folder, reference)
            except references.ImportProblem as error:
                yield document.problem(f"{dotted(path)}: {error}", document.value_place(path))


def _invariant_problems(written: PlansFile, signature: Signature | None, document: Document) -> Iterator[TaskProblem]:
    outputs = [one.name for one in signature.outputs] if signature is not None else None
    inputs = [one.name for one in signature.inputs] if signature is not None else ()
    for index, text in enumerate(written.governance.invariants):
        path = ("plans", "governance", "invariants", index)
        try:
            read_check(text, outputs, inputs)
        except CheckProblem as error:
            yield document.problem(f"{dotted(path)}: {error}", document.place_inside(path, error.position))


def _model_names(written: PlansFile) -> Iterator[tuple[Place, str | None]]:
    yield ("plans", "planner"), written.planner
    yield ("plans", "stronger"), written.stronger
    for index, plan in enumerate(written.candidates):
        yield ("plans", "candidates", index, "model"), plan.model
    if isinstance(written.governance.judge, JudgeFile):
        yield ("plans", "governance", "judge", "model"), written.governance.judge.model


def _plan(one: PlanFile) -> Plan:
    tools = None if one.tools is None else tuple(one.tools)
    scores = Scores(**one.scores.model_dump())
    return Plan(one.approach, one.name, one.model, one.budget_share, tools, one.temperature, scores, "file")


def _thresholds(written: PlansFile) -> Thresholds:
    said = written.governance
    judge = said.judge
    if isinstance(judge, str):
        judge = JudgeFile(question=judge, model=None)
    return Thresholds(
        said.min_confidence,
        said.accept_extracted,
        said.max_cost_usd,
        said.max_seconds,
        tuple(said.invariants),
        judge=Judge(judge.question, judge.model) if judge is not None else None,
    )
