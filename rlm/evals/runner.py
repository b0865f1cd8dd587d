"""Running samples: a bounded number at once, each through the same loop as any task, and scored."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import sandbox

from ..errors import RlmError
from ..events import Event, Observer, TiersUsed, fan_out, ignore
from ..results import ExecutionResult, Failed, FailureCause, Submitted
from ..runner import arun_task, make_model
from .baseline import run_direct
from .config import Evaluation
from .log import LogEntry
from .sample import Sample
from .scorers import score
from .simulated import ORACLE, Oracle, oracle_lm
from .summary import Tiers, sum_tiers

if TYPE_CHECKING:
    from ..tasks import ModelSpec, Task

SampleRun: TypeAlias = tuple[Sample, int]
"""A sample, and the number of the epoch to run it in."""

_NO_KERNEL = "sandbox:KernelStartError"
_START_ATTEMPTS = 3
_START_DELAY_S = 0.2


class EvaluationStopped(RlmError):
    """No sample can be run here: the key, the model or isolation is missing. Finished runs are in the log."""


async def run_samples(
    evaluation: Evaluation,
    runs: Iterator[SampleRun],
    on_entry: Callable[[LogEntry], None],
    *,
    at_once: int = 1,
    observe: Observer = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run samples, `at_once` at a time, and call `on_entry` with the entry of each; ask `should_stop` before each.

    Raises `EvaluationStopped`. If it is cancelled, running samples are abandoned.
    """
    lock = asyncio.Lock()

    async def worker() -> None:
        while not should_stop():
            async with lock:  # samples are large, so each is generated when a worker has room for it
                run = await asyncio.to_thread(next, runs, None)
            if run is None:
                return
            on_entry(await run_sample(evaluation, *run, observe=observe))

    workers = [asyncio.create_task(worker()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def missing_runs(evaluation: Evaluation, done: Collection[tuple[str, int]]) -> Iterator[SampleRun]:
    """Yield the runs whose keys are not in `done`: all epochs of a sample, then those of the next."""
    return (run for run in _all_runs(evaluation) if (run[0].id, run[1]) not in done)


def selected_runs(evaluation: Evaluation, keys: Collection[tuple[str, int]]) -> Iterator[SampleRun]:
    """Yield the runs with these keys."""
    return (run for run in _all_runs(evaluation) if (run[0].id, run[1]) in keys)


async def run_sample(evaluation: Evaluation, sample: Sample, epoch: int, *, observe: Observer = ignore) -> LogEntry:
    """Run and score one sample. Raises `TaskError` if it is not a valid task, and `EvaluationStopped`."""
    task = evaluation.settings.task_for(sample)
    tiers: list[Tiers] = []

    def collect_tiers(event: Event) -> None:
        if isinstance(event, TiersUsed):
            tiers.append(event.by_signature)

    def make(spec: ModelSpec, role: str, answered: int = 0) -> Any:
        return _make_model(evaluation, sample, epoch, spec, role, answered)

    start = time.monotonic()
    observer = fan_out(observe, collect_tiers)
    try:
        if evaluation.baseline == "direct":
            result = await run_direct(task, make, observe=observer)
        else:
            result = await arun_task(task, observe=observer, make=make)
    except Exception as error:  # before the run started: an input or a script is missing
        result = Failed(f"{type(error).__name__}: {error}", cause=FailureCause("fault", type(error).__name__))
    if isinstance(result, Failed) and result.cause is not None and result.cause.hopeless:
        one_time = str(result.cause) == _NO_KERNEL and await asyncio.to_thread(_kernel_starts, task)
        if not one_time:
            raise EvaluationStopped(str(result.reason))
    return replace(_log_entry(sample, epoch, result, time.monotonic() - start), tiers=sum_tiers(tiers))


def _all_runs(evaluation: Evaluation) -> Iterator[SampleRun]:
    return ((sample, epoch) for sample in evaluation.samples() for epoch in range(1, evaluation.epochs + 1))


def _kernel_starts(task: Task) -> bool:
    """Return whether a kernel can be started: if so, the failure to start one concerned a single run.

    A fork server that was killed takes a moment to end; then the pool starts a new one.
    """
    for attempt in range(_START_ATTEMPTS):
        time.sleep(_START_DELAY_S * attempt)
        with contextlib.suppress(sandbox.SandboxError):
            sandbox.default_pool().take(task.isolation, task.limits).close()
            return True
    return False


def _log_entry(sample: Sample, epoch: int, result: ExecutionResult[Any], seconds: float) -> LogEntry:
    from ..calibration.dataset import features_of

    cause = result.cause if isinstance(result, Failed) else None
    reason = None if isinstance(result, Submitted) else str(result.reason)
    error = None if cause is None else f"{cause}: {reason}"
    outputs = None
    try:
        outputs = result.to_dict().get("outputs")
        json.dumps(outputs, allow_nan=False)  # raises if the outputs cannot be stored
        scored = score(sample, outputs)
    except Exception as problem:  # an unforeseen answer must not end the evaluation
        outputs, scored = None, score(sample, None)
        error = error or f"scoring:{type(problem).__name__}: {problem}"
    return LogEntry(
        sample_id=sample.id,
        suite=sample.suite,
        length=sample.length,
        epoch=epoch,
        ending=type(result).__name__,
        outputs=outputs,
        expected=sample.expected,
        scores=dict(scored.fields),
        score=scored.total,
        confidence=result.confidence,
        fields=features_of(result),
        run_id=result.run_id or None,
        usage=result.usage.to_dict(),
        seconds=seconds,
        error=error,
        reason=reason,
        inputs=sample.inputs_digest(),
    )


def _make_model(evaluation: Evaluation, sample: Sample, epoch: int, spec: ModelSpec, role: str, answered: int) -> Any:
    """Return the model for one run. dspy's cache is off unless the settings turn it on."""
    if spec.model == ORACLE:
        digest = hashlib.sha256(f"{evaluation.seed}:{sample.id}:{epoch}".encode()).digest()
        rate, oracle = evaluation.settings.error_rate, Oracle(seed=int.from_bytes(digest[:6]))
        return oracle_lm(oracle if rate is None else replace(oracle, error=rate))
    if not spec.local and spec.scripted is None:
        spec = replace(spec, options={"cache": False, **spec.options})
    return make_model(spec, role, answered)
