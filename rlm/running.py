"""A task, run: its models are made, then the driver does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .models.scripted import load_script, scripted_lm
from .repl.driver import Driver
from .repl.events import Observer, ignore
from .results import ExecutionResult

if TYPE_CHECKING:
    from .tasks.models import ModelSpec
    from .tasks.task import Task


async def run_task(task: Task, *, observe: Observer = ignore) -> ExecutionResult[Any]:
    """Run the task to its ending. Raises what is wrong with the task or its models before anything is started."""
    models = task.models
    driver = Driver(
        task.signature,
        make_model(models.main, "main"),
        make_model(models.sub, "sub"),
        make_model(models.extraction, "extraction"),
        trigger=task.trigger,
        limits=task.limits,
        isolation=task.isolation,
        policy=task.policy,
        tools=task.tools,
        checks=tuple(task.checks),
        depth=task.depth,
        observe=observe,
    )
    return await driver.run(task.inputs)


def make_model(spec: ModelSpec, role: str) -> Any:
    """The `dspy.LM` that a task names, or one that answers from the task's script."""
    if spec.scripted is not None:
        return scripted_lm(load_script(spec.scripted).get(role, []), name=f"scripted/{role}")
    import dspy

    return dspy.LM(spec.model, **spec.lm_options())
