"""Running an evaluation: a bounded number of samples at once, each through the real driver."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sandbox

from ..errors import RlmError
from ..events import Observer, fan_out, ignore
from ..results import ExecutionResult, Failed, FailureCause, Submitted
from ..runner import arun_task, make_model
from .baseline import run_direct
from .config import Evaluation
from .log import Entry
from .sample import Sample
from .scorers import score
from .simulated import ORACLE, Oracle, oracle_lm
from .tier_counts import TierWatch

if TYPE_CHECKING:
    from ..tasks import ModelSpec, Task

Work = tuple[Sample, int]

_NO_KERNEL = "sandbox:KernelStartError"
_STARTS = 3
_MOMENT_S = 0.2


class CannotGoOn(RlmError):
    """No sample can be run here: no key, no such model, no isolation. What was finished is in the log."""


@dataclass
class Pool:
    """Runs what it is given, some at once. `stop` is looked at before each sample."""

    evaluation: Evaluation
    at_once: int
    done: Callable[[Entry], None]
    """Called with each entry as it is finished."""

    observe: Observer = ignore
    stop: Callable[[], bool] = lambda: False

    async def run(self, work: Iterator[Work]) -> None:
        """Run all of it. Raises `CannotGoOn`; what is running when this is cancelled is dropped."""
        turn = asyncio.Lock()

        async def worker() -> None:
            while not self.stop():
                async with turn:  # samples are large: they are made one by one, when there is room for one
                    next_one = await asyncio.to_thread(next, work, None)
                if next_one is None:
                    return
                self.done(await run_sample(self.evaluation, *next_one, observe=self.observe))

        workers = [asyncio.create_task(worker()) for _ in range(self.at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def missing(evaluation: Evaluation, done: Collection[tuple[str, int]]) -> Iterator[Work]:
    """What is not done yet: all epochs of a sample, then the next one."""
    for sample in evaluation.samples():
        for epoch in range(1, evaluation.epochs + 1):
            if (sample.id, epoch) not in done:
                yield sample, epoch


def only(evaluation: Evaluation, wanted: Collection[tuple[str, int]]) -> Iterator[Work]:
    """Some samples and epochs of an evaluation."""
    for sample in evaluation.samples():
        for epoch in range(1, evaluation.epochs + 1):
            if (sample.id, epoch) in wanted:
                yield sample, epoch


async def run_sample(evaluation: Evaluation, sample: Sample, epoch: int, *, observe: Observer = ignore) -> Entry:
    """One sample, run and scored. Raises `TaskError` for one that is no task, and `CannotGoOn`."""
    task = evaluation.settings.task_for(sample)
    tiers = TierWatch()

    def make(spec: ModelSpec, role: str, had: int = 0) -> Any:
        return _model(evaluation, sample, epoch, spec, role, had)

    began = time.monotonic()
    watched = fan_out(observe, tiers)
    try:
        if evaluation.baseline == "direct":
            result = await run_direct(task, make, observe=watched)
        else:
            result = await arun_task(task, observe=watched, make=make)
    except Exception as error:  # before the run began: its inputs, a script that is gone
        result = Failed(f"{type(error).__name__}: {error}", cause=FailureCause("fault", type(error).__name__))
    cause = result.cause if isinstance(result, Failed) else None
    no_kernel = str(cause) == _NO_KERNEL
    if cause is not None and cause.hopeless and not (no_kernel and await asyncio.to_thread(_kernel_starts, task)):
        raise CannotGoOn(str(result.reason))  # type: ignore[union-attr]
    return replace(_entry(sample, epoch, result, time.monotonic() - began), tiers=tiers.by_signature)


def _kernel_starts(task: Task) -> bool:
    """Whether a kernel can be started here: if so, one that did not start was the trouble of one run.

    A fork server that was killed takes a moment to be gone; then the pool starts a new one.
    """
    for again in range(_STARTS):
        time.sleep(_MOMENT_S * again)
        with contextlib.suppress(sandbox.SandboxError):
            sandbox.default_pool().take(task.isolation, task.limits).close()
            return True
    return False


def _entry(sample: Sample, epoch: int, result: ExecutionResult[Any], seconds: float) -> Entry:
    cause = result.cause if isinstance(result, Failed) else None
    reason = None if isinstance(result, Submitted) else str(result.reason)
    error = None if cause is None else f"{cause}: {reason}"
    outputs = None
    try:
        outputs = result.to_dict().get("outputs")
        json.dumps(outputs, allow_nan=False)  # can it be written down?
        scored = score(sample, outputs)
    except Exception as problem:  # an answer that nobody thought of must not end the others
        outputs, scored = None, score(sample, None)
        error = error or f"scoring:{type(problem).__name__}: {problem}"
    return Entry(
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
        fields=_features(result),
        run_id=result.run_id or None,
        usage=result.usage.to_dict(),
        seconds=seconds,
        error=error,
        reason=reason,
        inputs=sample.inputs_digest(),
    )


def _features(result: ExecutionResult[Any]) -> dict[str, dict[str, float]]:
    from ..calibration.features import features_of

    return features_of(result)


def _model(evaluation: Evaluation, sample: Sample, epoch: int, spec: ModelSpec, role: str, had: int) -> Any:
    """A model for one run. Nothing that was answered before is used again, unless the settings say so."""
    if spec.model == ORACLE:
        drawn = hashlib.sha256(f"{evaluation.seed}:{sample.id}:{epoch}".encode()).digest()
        rate, oracle = evaluation.settings.error_rate, Oracle(seed=int.from_bytes(drawn[:6]))
        return oracle_lm(oracle if rate is None else replace(oracle, error=rate))
    if not spec.local and spec.scripted is None:
        spec = replace(spec, options={"cache": False, **spec.options})
    return make_model(spec, role, had)
