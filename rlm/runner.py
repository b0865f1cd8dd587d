"""Tasks, run: from a `Task` to the configuration of a run, and its `Run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .calibration.calibrator import for_models
from .events import Observer, fan_out, ignore
from .extraction.confidence import score
from .models.profile import ModelProfile
from .models.scripted import load_script, scripted_lm
from .mounts.output import save_all
from .repl.config import RunConfig
from .repl.learned import Learned
from .repl.loop import RunLoop
from .repl.replay import RecordedRun
from .results import ExecutionResult, Failed
from .run import Loop, Run
from .tasks.packages import task_packages

if TYPE_CHECKING:
    from .tasks.models import Models, ModelSpec
    from .tasks.task import Task

Make = Callable[..., Any]
"""From a `ModelSpec`, a role and a number of answers given before, to a `dspy.LM`: see `make_model`."""


def run_task(task: Task | str | Path, *, observe: Observer = ignore, record: bool = True) -> ExecutionResult[Any]:
    """Run a task, or the task file at a path, to its ending. Runs are on record unless `record` is off."""
    from .tasks import load
    from .traces.writer import default_observer

    if isinstance(task, str | Path):
        task = load(Path(task))
    recorder = default_observer() if record else ignore
    result = make_run(task, observe=fan_out(recorder, observe)).run_here()
    save_outputs(task, result)
    return result


def save_outputs(task: Task, result: ExecutionResult[Any]) -> list[str]:
    """Copy files among the outputs to where the task wants them. Say where each is, or why it is not saved."""
    if isinstance(result, Failed) or not task.save:
        return []
    return save_all(result.outputs, task.save, overwrite=task.overwrite)


async def arun_task(
    task: Task, *, observe: Observer = ignore, past: RecordedRun | None = None, make: Make | None = None
) -> ExecutionResult[Any]:
    """Run a task to its ending in the event loop of the caller. It is on record if `observe` records it."""
    if task.mcp is not None:
        await task.mcp.aopen()
    return await make_run(task, observe=observe, past=past, make=make)


def make_run(
    task: Task, *, observe: Observer = ignore, past: RecordedRun | None = None, make: Make | None = None
) -> Run:
    """Make the run of a task; nothing is started. Raise what is wrong with the task or its models.

    With the `past` of an earlier run of the task, it goes on from there. `make` makes the models in place of
    `make_model`.
    """
    return Run(lambda observer: _make_loop(task, observer, past, make or make_model), observe)


def _make_loop(task: Task, observe: Observer, past: RecordedRun | None, make: Make) -> Loop:
    answered = {"main": len(past.iterations), "sub": past.usage.llm_calls} if past is not None else {}
    if past is not None and (task.plans is not None or task.agreement is not None):  # iterations are in child runs
        answered = {role: past.answered.get(f"scripted/{role}", 0) for role in ("main", "sub", "extraction")}
    config = _config(task, observe, make, answered)
    new_loop: Callable[..., Loop] = RunLoop
    if task.plans is not None:
        from .plans.runner import PlanLoop

        others = {name: make(spec, "main") for name, spec in task.plans.models.items()}
        new_loop = partial(PlanLoop, settings=replace(task.plans.ready(task.path), models=others))
    if task.agreement is None:
        return new_loop(config, task.inputs, past=past)
    from .agreement.loop import AgreementLoop

    return AgreementLoop(config, task.inputs, task.agreement, past=past, make=new_loop)


def task_config(task: Task, *, answered: Mapping[str, int] | None = None) -> RunConfig:
    """Return the configuration of the runs of a task. `answered` has how many replies scripts gave before, by role."""
    if task.plans is not None or task.agreement is not None:
        raise ValueError("a session has no plans: each run would need a kernel of its own; leave out plans and agree")
    return _config(task, ignore, make_model, answered or {})


def _config(task: Task, observe: Observer, make: Make, answered: Mapping[str, int]) -> RunConfig:
    config = _config_without_servers(task, observe, make, answered)
    if task.mcp is None:
        return config
    from .mcp.run_tools import with_servers

    return with_servers(config, task.mcp)


def _config_without_servers(task: Task, observe: Observer, make: Make, answered: Mapping[str, int]) -> RunConfig:
    models = task.models if task.agreement is None else _batched(task.models, task.agreement.first_round)
    extraction = make(models.extraction, "extraction", answered.get("extraction", 0))
    names = map(str, (models.main, models.sub, models.extraction))
    return RunConfig(
        task.signature,
        make(models.main, "main", answered.get("main", 0)),
        make(models.sub, "sub", answered.get("sub", 0)),
        extraction,
        trigger=task.trigger,
        limits=task.limits,
        isolation=task.isolation,
        policy=task.policy,
        tools=task.tools,
        checks=tuple(task.checks),
        verify=task.verify,
        depth=task.depth,
        scorer=for_models(task.scorer, names) if task.scorer is not None else score,
        adapter=_adapter(task, extraction, make),
        observe=observe,
        task=task.source,
        mode=task.mode,
        map=task.map,
        guidance=task.guidance,
        learned=task.learned or Learned(),
        **task_packages(task),
    )


def _batched(models: Models, runs: int) -> Models:
    """Return the models; those that run here answer so many requests at a time, unless the task says how many."""

    def batched(spec: ModelSpec) -> ModelSpec:
        return replace(spec, options={"parallel": runs, **spec.options}) if spec.local else spec

    return replace(models, main=batched(models.main), sub=batched(models.sub), extraction=batched(models.extraction))


def _adapter(task: Task, extraction: Any, make: Make) -> Any:
    if task.adapter is None:
        return None
    from .adapters.registry import adapter_named

    own = task.adapter.model
    return adapter_named(task.adapter.name, extraction if own is None else make(own, "extraction"))


def make_model(spec: ModelSpec, role: str, answered: int = 0) -> Any:
    """Return the `dspy.LM` of a task, or one that answers from its script, after the replies it has `answered` before.

    Local models with the same weights and settings share one copy of them.
    """
    if spec.scripted is not None:
        script = load_script(spec.scripted).get(role, [])
        return scripted_lm(script[answered:] if isinstance(script, list) else script, name=f"scripted/{role}")
    if spec.local:
        from .models import OutlinesLM

        lm = OutlinesLM(spec.weights, **spec.lm_options())
        lm.profile = replace(lm.profile, price=spec.price)
        return lm
    if spec.command is not None:
        from .models.command import lm_for

        options = spec.lm_options()
        lm = lm_for(spec.command, spec.model, options.pop("timeout", None), **options)
        lm.profile = replace(lm.profile, rate_limit=spec.limit, price=spec.price)
        return lm
    import dspy

    # dspy's own cache on disk is used only if the task says so.
    lm = dspy.LM(spec.model, **{"cache": False} | spec.lm_options())
    lm.profile = ModelProfile(rate_limit=spec.limit, key_env=spec.api_key_env, price=spec.price)
    return lm
