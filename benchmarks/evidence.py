"""What evidence costs: the processor time of a run with it and without, and its share of a run with a model of 50 ms.

    python benchmarks/evidence.py [--runs 40] [--lines 5000]

Each run has three cells over a log: it reads lines, counts by kind, and submits. `rlm.repl.result.judge`, which makes
the evidence and the features, is timed by the processor time of its thread; runs without it show that this is all.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from statistics import median
from typing import Any
from unittest import mock

from rlm.models.client import Answer
from rlm.models.scripted import scripted_lm
from rlm.repl import loop
from rlm.repl.config import RunConfig
from rlm.repl.conversation import Conversation
from rlm.signatures import Signature

MODEL_S = 0.05
CELLS = (
    "lines = log.splitlines()\nprint(len(lines), lines[:2])",
    "kinds = {}\nfor line in lines:\n    parts = line.split()\n    if len(parts) > 2:\n"
    "        kinds[parts[1]] = kinds.get(parts[1], 0) + 1\nprint(kinds)",
    "worst = max(kinds, key=kinds.get)\nfirst = next(line for line in lines if worst in line)\n"
    "SUBMIT(kinds=kinds, worst=worst, first=first, errors=kinds.get('ERROR', 0))",
)
SIGNATURE = "log -> kinds: dict[str, int], worst: str, first: str, errors: int"


async def one_run(log: str) -> tuple[float, float]:
    """Return the wall time and the processor time of this process for one run."""
    replies = iter(CELLS)

    async def reply(conversation: Conversation, settings: Mapping[str, Any], adapter: Any) -> Answer:
        await asyncio.sleep(MODEL_S)
        return Answer(f"```python\n{next(replies)}\n```")

    config = RunConfig(Signature.of(SIGNATURE), scripted_lm([]), main_call=reply)
    began, used = time.perf_counter(), time.process_time()
    result = await config.run({"log": log})
    assert result.status == "submitted", result
    return time.perf_counter() - began, time.process_time() - used


async def measure(runs: int, log: str) -> None:
    judge, spent = loop.judge, []

    def timed(*given: Any) -> Any:
        began = time.thread_time()
        result = judge(*given)
        spent.append(time.thread_time() - began)
        assert result.evidence
        return result

    for name, replacement in (("warm-up", judge), ("with evidence", timed), ("without", lambda result, run: result)):
        with mock.patch.object(loop, "judge", replacement):
            times = [await one_run(log) for _ in range(3 if name == "warm-up" else runs)]
        if name != "warm-up":
            wall, used = (median(one) * 1000 for one in zip(*times, strict=True))
            print(f"{name:14} {wall:7.1f} ms a run, {used:6.2f} ms of processor time of the host")
        if name == "with evidence":
            whole = median(wall for wall, _ in times)
    cost = median(spent)
    print(f"evidence       {cost * 1000:7.2f} ms of processor time, {cost / whole:.2%} of a run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--lines", type=int, default=5000)
    given = parser.parse_args()
    kinds = ("INFO", "ERROR", "WARNING", "DEBUG", "INFO")
    log = "\n".join(f"{at:06} {kinds[at % 5]} worker {at % 17} did step {at}" for at in range(given.lines))
    asyncio.run(measure(given.runs, log))


if __name__ == "__main__":
    main()
