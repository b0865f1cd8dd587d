"""The same run with tracing and without, in pairs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import sandbox
from rlm.budgets import FallbackTrigger
from rlm.events import ignore
from rlm.models.scripted import ScriptedEngine
from rlm.repl.config import RunConfig
from rlm.signatures import Signature
from rlm.traces import TraceWriter

ITERATIONS = 20


@dataclass(frozen=True)
class Sample:
    seconds: float
    processor: float
    """Of all threads of this process, until everything is written."""


class _Slow:
    """A model that takes its time, and answers from a script."""

    def __init__(self, engine: ScriptedEngine, latency: float) -> None:
        self._engine, self._latency = engine, latency

    async def complete(self, request: Any) -> Any:
        if self._latency:
            await asyncio.sleep(self._latency)
        return self._engine.complete(request)

    async def aclose(self) -> None:
        return


def _model(latency: float) -> Any:
    import dspy

    cell = (
        "for row in range(30):\n    print({step}, row, doc[{step} * 1000 + row * 50 : {step} * 1000 + row * 50 + 50])"
    )
    replies = [f"I look at part {step}.\n```python\n{cell.format(step=step)}\n```" for step in range(ITERATIONS - 1)]
    engine = ScriptedEngine([*replies, "Done.\n```python\nSUBMIT(n=1)\n```"])
    return dspy.LM("scripted/main", engine=engine, async_engine=_Slow(engine, latency), cache=False, num_retries=0)


def measure(rounds: int, latency: float, megabytes: float) -> list[tuple[Sample, Sample]]:
    """Pairs: without and with. Which of the two is first changes from pair to pair."""
    line = "2031-05-04 12:00:00 worker-17 accepted order {}\n"
    doc = "".join(line.format(number) for number in range(int(megabytes * 1e6 / 50)))
    pairs = []
    with (
        tempfile.TemporaryDirectory(prefix="rlm-bench-") as home,
        sandbox.Pool(size=2) as pool,
        TraceWriter(home) as writer,
    ):
        for number in range(rounds + 2):
            one: dict[bool, Sample] = {}
            for traced in (False, True) if number % 2 else (True, False):
                one[traced] = asyncio.run(_run(writer if traced else None, latency, doc, pool))
            if number >= 2:  # the first ones import, and write the input once
                pairs.append((one[False], one[True]))
        assert writer.problem is None, writer.problem
    return pairs


async def _run(writer: TraceWriter | None, latency: float, doc: str, pool: sandbox.Pool) -> Sample:
    pool.wait_full()
    limits = FallbackTrigger(max_iterations=ITERATIONS + 5)
    driver = RunConfig(
        Signature.of("doc -> n: int"), _model(latency), trigger=limits, observe=writer or ignore, pool=pool
    )
    processor, began = time.process_time(), time.perf_counter()
    result = await driver.run({"doc": doc})
    seconds = time.perf_counter() - began
    if writer is not None:
        writer.flush()
    if type(result).__name__ != "Submitted":
        raise RuntimeError(f"the run ended as {result}")
    return Sample(seconds, time.process_time() - processor)
