"""A task, run: its models are made, then the driver does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .models.scripted import load_script, scripted_lm
from .repl.driver import Driver
from .repl.events import Observer, ignore
from .repl.past import Past
from .results import ExecutionResult

if TYPE_CHECKING:
    from .tasks.models import ModelSpec
    from .tasks.task import Task


async def run_task(task: Task, *, observe: Observer = ignore, past: Past | None = None) -> ExecutionResult[Any]:
    """Run the task to its ending. Raises what is wrong with the task or its models before anything is started.

    With the `past` of another run of it, the run goes on from there.
    """
    models = task.models
    had = {"main": len(past.iterations), "sub": past.usage.llm_calls} if past is not None else {}
    if past is not None and task.plans is not None:
        had["main"] = past.usage.model_calls - past.usage.llm_calls  # its iterations are in the runs of its plans
    driver = Driver(
        task.signature,
        make_model(models.main, "main", had.get("main", 0)),
        make_model(models.sub, "sub", had.get("sub", 0)),
        make_model(models.extraction, "extraction"),
        trigger=task.trigger,
        limits=task.limits,
        isolation=task.isolation,
        policy=task.policy,
        tools=task.tools,
        checks=tuple(task.checks),
        depth=task.depth,
        observe=observe,
        task=task.source,
    )
    if task.plans is not None:
        from .plans.loop import run_plans

        others = {name: make_model(spec, "main") for name, spec in task.plans.models.items()}
        return await run_plans(driver, task.inputs, task.plans.ready(task.path), models=others, past=past)
    return await driver.run(task.inputs, past=past)


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

    return dspy.LM(spec.model, **spec.lm_options())
