"""One contender of `batch.py`, in a process of its own: runs so many scripted tasks and says what that took.

python batch_worker.py CONTENDER FOLDER COUNT

Counted from the time when a few tasks are done until a few are left: imports and first kernels are not what a long
batch is made of, and what is under way when counting begins is made up for by what is under way when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

WARM = 20
TASK = """\
signature: "n: int, word: str -> twice: int"
instructions: Say what twice the number is.
models: {scripted: replies.yaml}
budget: {max_iterations: 4, max_duration: 5m}
"""
REPLIES = """\
main:
  - |
    I look at what I have.
    ```python
    print(n, len(word))
    ```
  - |
    ```python
    SUBMIT(twice=2 * n)
    ```
"""


def write_folder(folder: Path, count: int) -> None:
    """The task, and so many rows."""
    (folder / "task.yaml").write_text(TASK)
    (folder / "replies.yaml").write_text(REPLIES)
    with (folder / "rows.csv").open("w") as file:
        file.write("n,word\n")
        file.writelines(f"{number},word {number}\n" for number in range(1, count + 1))


class Clock:
    """Notes how many tasks are done; what time, processor time and memory they took between two marks."""

    def __init__(self, count: int, roots: Callable[[], Iterable[int]]) -> None:
        self.count, self.done, self._roots = count, 0, roots
        edge = min(WARM, count // 4)
        self._marks: dict[int, tuple[float, float, float]] = dict.fromkeys((edge, count - edge), (0.0, 0.0, 0.0))
        """When so many tasks were done: the time, the processor time, and that of the driver alone."""

        self.memory: dict[int, int] = {}
        """Bytes by how many tasks were done: of the driver and the workers, without their kernels."""

    def take(self) -> None:
        self.done += 1
        if self.done in self._marks:
            self._marks[self.done] = (time.perf_counter(), self._processor(), time.process_time())
        if self.done in (self.count // 10, self.count):
            self.memory[self.done] = sum(psutil.Process(pid).memory_info().rss for pid in {os.getpid(), *self._roots()})

    def result(self) -> dict[str, Any]:
        (first, before), (last, after) = self._marks.items()
        seconds, processor, driver = (late - early for early, late in zip(before, after, strict=True))
        took = {"seconds": seconds, "processor": processor, "driver": driver}
        return {**took, "tasks": last - first, "memory": self.memory}

    def _processor(self) -> float:
        """Seconds of all processes of the batch, those that are gone included."""
        total = 0.0
        found: dict[int, psutil.Process] = {}
        for root in {os.getpid(), *self._roots()}:
            with contextlib.suppress(psutil.Error):
                own = psutil.Process(root)
                found |= {one.pid: one for one in (own, *own.children(recursive=True))}
        for one in found.values():
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total


def bare(folder: Path, count: int) -> dict[str, Any]:
    """One process, one task after the other, and nothing else."""
    from rlm.runner import arun_task
    from rlm.tasks import Overrides, load
    from rlm.traces.writer import default_observer

    task = load(folder / "task.yaml", Overrides(inputs={"n": "0", "word": ""}))
    clock, observe = Clock(count, list), default_observer()

    async def loop() -> dict[str, Any]:
        for number in range(1, count + 1):
            inputs = {"n": number, "word": f"word {number}"}
            result = await arun_task(dataclasses.replace(task, inputs=inputs), observe=observe)
            assert result.outputs is not None
            assert result.outputs.twice == 2 * number
            clock.take()
        return clock.result()

    return asyncio.run(loop())


def evaluate(folder: Path, count: int) -> dict[str, Any]:
    """The same tasks under the threads of `dspy.Evaluate`."""
    import dspy

    from rlm.runner import arun_task
    from rlm.tasks import Overrides, load
    from rlm.traces.writer import default_observer

    task = load(folder / "task.yaml", Overrides(inputs={"n": "0", "word": ""}))
    clock, observe = Clock(count, list), default_observer()

    class Program(dspy.Module):  # type: ignore[misc]
        def forward(self, n: int, word: str) -> Any:
            result = asyncio.run(arun_task(dataclasses.replace(task, inputs={"n": n, "word": word}), observe=observe))
            return dspy.Prediction(twice=getattr(result.outputs, "twice", None))

    def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
        clock.take()
        return bool(prediction.twice == 2 * example.n)

    devset = [dspy.Example(n=n, word=f"word {n}").with_inputs("n", "word") for n in range(1, count + 1)]
    threads = 4 * (os.cpu_count() or 1)
    score = dspy.Evaluate(devset=devset, metric=metric, num_threads=threads)(Program()).score
    assert score == 100.0, score
    return clock.result()


def batch(folder: Path, count: int, make: Callable[[], Any]) -> dict[str, Any]:
    """A whole batch with its ledger and its results; then, whether anything is lost or there twice."""
    from rlm.batch.driver import Batch
    from rlm.batch.ledger import Ledger
    from rlm.batch.results_file import ResultsFile
    from rlm.batch.source import Source

    ledger = Ledger(folder / "ledger.db")
    batch = Batch(Source([folder / "task.yaml"], folder / "rows.csv"), ledger)
    began = time.perf_counter()
    batch.prepare()
    reading = time.perf_counter() - began
    results = ResultsFile(folder / "results.jsonl", ledger)
    executor = make()
    clock = Clock(count, lambda: executor.pids)
    for _ in batch.run(executor, results):
        clock.take()
    found = clock.result()
    executor.close()
    results.close()
    ledger.close()
    right, lines = set(), 0
    with (folder / "results.jsonl").open() as file:
        for line in file:
            one = json.loads(line)
            lines += 1
            if one["outputs"] == {"twice": 2 * one["number"]}:
                right.add(one["number"])
    return {**found, "reading": reading, "lost": count - len(right), "double": lines - len(right)}


class Idle:
    """An executor that answers at once: what is left is the driver, its ledger and its results."""

    pids: tuple[int, ...] = ()

    def run(self, items: Any) -> Any:
        from rlm.batch.item import Outcome

        usage = {"tokens_in": 100, "tokens_out": 20, "cost_usd": None, "seconds": 0.1, "unpriced_calls": 2}
        for item in items:
            result = {"outputs": {"twice": 2 * item.inputs["n"]}, "confidence": 1.0, "usage": usage}
            yield Outcome(item.key, item.name, "Submitted", result, None, 0.1, "nobody:0", "0123456789ab")

    def close(self) -> None:
        return


def _local(workers: int | None, at_once: int) -> Callable[[], Any]:
    def make() -> Any:
        from rlm.batch.executors.processes import ProcessExecutor

        return ProcessExecutor(workers=workers, at_once=at_once, log=Path(os.environ["RLM_HOME"]) / "log")

    return make


def _ray(workers: int | None, at_once: int) -> Callable[[], Any]:
    def make() -> Any:
        from rlm.batch.executors.ray import RayExecutor

        return RayExecutor(workers=workers, at_once=at_once)

    return make


def main() -> None:
    name, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    write_folder(folder, count)
    os.environ["RLM_HOME"] = str(folder / "home")
    contenders: dict[str, Callable[[], dict[str, Any]]] = {
        "bare": lambda: bare(folder, count),
        "evaluate": lambda: evaluate(folder, count),
        "driver": lambda: batch(folder, count, Idle),
        "local 1x1": lambda: batch(folder, count, _local(1, 1)),
        "local": lambda: batch(folder, count, _local(None, 4)),
        "ray 1x1": lambda: batch(folder, count, _ray(1, 1)),
        "ray": lambda: batch(folder, count, _ray(None, 4)),
    }
    found = contenders[name]()
    print("RESULT " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
