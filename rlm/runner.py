"""A task, run: its models are made, then the driver does the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .calibration.scorer import for_models
from .events import Observer, ignore
from .extraction.confidence import score
from .models import policy
from .models.scripted import load_script, scripted_lm
from .repl.loop import Driver
from .repl.replay import Past
from .results import ExecutionResult

if TYPE_CHECKING:
    from .tasks.models import ModelSpec
    from .tasks.task import Task

Make = Callable[..., Any]
"""From a `ModelSpec`, a role and a number of answers had before, to a `dspy.LM`: see `make_model`."""


async def run_task(
    task: Task, *, observe: Observer = ignore, past: Past | None = None, make: Make | None = None
) -> ExecutionResult[Any]:
    """Run the task to its ending. Raises what is wrong with the task or its models before anything is started.

    With the `past` of another run of it, the run goes on from there. `make` makes the models, if not `make_model`.
    """
    make = make or make_model
    models = task.models
    had = {"main": len(past.iterations), "sub": past.usage.llm_calls} if past is not None else {}
    if past is not None and task.plans is not None:  # its iterations are in the runs of its plans
        had = {role: past.answered.get(f"scripted/{role}", 0) for role in ("main", "sub", "extraction")}
    extraction = make(models.extraction, "extraction", had.get("extraction", 0))
    driver = Driver(
        task.signature,
        make(models.main, "main", had.get("main", 0)),
        make(models.sub, "sub", had.get("sub", 0)),
        extraction,
        trigger=task.trigger,
        limits=task.limits,
        isolation=task.isolation,
        policy=task.policy,
        tools=task.tools,
        checks=tuple(task.checks),
        depth=task.depth,
        scorer=for_models(task.scorer or score, map(str, (models.main, models.sub, models.extraction))),
        adapter=_adapter(task, extraction, make),
        observe=observe,
        task=task.source,
        guidance=task.guidance,
    )
    if task.plans is not None:
        from .plans.runner import run_plans

        others = {name: make(spec, "main") for name, spec in task.plans.models.items()}
        settings = replace(task.plans.ready(task.path), models=others)
        return await run_plans(driver, task.inputs, settings, past=past)
    return await driver.run(task.inputs, past=past)


def _adapter(task: Task, extraction: Any, make: Make) -> Any:
    if task.adapter is None:
        return None
    from .adapters.registry import adapter_named

    own = task.adapter.model
    return adapter_named(task.adapter.name, extraction if own is None else make(own, "extraction"))


def make_model(spec: ModelSpec, role: str, had: int = 0) -> Any:
    """The `dspy.LM` that a task names, or one that answers from the task's script, but for answers it `had` before.

    Local models with the same weights and settings share one copy of them.
    """
    if spec.scripted is not None:
        script = load_script(spec.scripted).get(role, [])
        return scripted_lm(script[had:] if isinstance(script, list) else script, name=f"scripted/{role}")
    if spec.local:
        from .models import OutlinesLM

        return OutlinesLM(spec.weights, **spec.lm_options())
    import dspy

    # Where answers are kept by us, or are not to be kept, dspy keeps them only if the task says so.
    own_cache = {"cache": False} if policy.in_use() else {}
    lm = dspy.LM(spec.model, **own_cache | spec.lm_options())
    lm.limit, lm.key_env = spec.limit, spec.api_key_env
    return lm
