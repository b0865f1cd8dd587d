"""What one large input costs when several plans read it at once: `python benchmarks/plan_memory.py`.

Four numbers, each for one plan and for several at once: the memory of this process, the sealed memory files that its
kernels share, and what the kernels have for themselves. Linux only: they come from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import psutil

import sandbox
from rlm.models.scripted import scripted_lm
from rlm.plans import FallbackConfig, Plan, PlanSettings, Thresholds
from rlm.plans.runner import PlanLoop
from rlm.repl.config import RunConfig
from rlm.signatures import Signature

MB = 1 << 20
CELL = "```python\nprint(doc[:10])\nn = len(doc)\nwait()\nSUBMIT(answer=n)\n```"


def sealed_files() -> tuple[int, int]:
    """The memory files that this process holds: how many, and their bytes."""
    sizes = {}
    for one in Path("/proc/self/fd").iterdir():
        try:
            if "rlm-input" in os.readlink(one):
                sizes[one.stat().st_ino] = one.stat().st_size
        except OSError:
            continue
    return len(sizes), sum(sizes.values())


async def measure(text: str, plans: int) -> dict[str, float]:
    """Run plans at once that all wait while they hold the text."""
    seen: dict[str, float] = {}
    here, barrier = psutil.Process(), asyncio.Barrier(plans)

    async def wait() -> None:
        """Wait until all plans are here."""
        if await barrier.wait() == 0:
            files, size = sealed_files()
            kernels = [one.memory_full_info().pss for one in here.children(recursive=True)]
            seen.update(host=here.memory_info().rss / MB, files=files, sealed=size / MB, kernels=sum(kernels) / MB)
        await barrier.wait()

    with tempfile.TemporaryDirectory() as logs, sandbox.Pool(size=1) as pool:
        tools: dict[str, Any] = {"wait": wait}
        driver = RunConfig(
            Signature.of("doc: str -> answer: int"), scripted_lm({"*": CELL}), tools=tools, pool=pool,
            limits=sandbox.Limits(memory_bytes=1 << 30),
        )  # fmt: skip
        settings = PlanSettings(
            tuple(Plan(f"way number {one} of doing it, {'again ' * one}{one}") for one in range(plans)),
            count=plans,
            parallel=plans,
            thresholds=Thresholds(invariants=("answer < 0",)),
            fallback=FallbackConfig(enabled=False),
            logs=Path(logs),
        )
        result = await PlanLoop(driver, {"doc": text}, settings).run()
        assert result.partial_outputs == {"answer": len(text)}, result
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=50)
    parser.add_argument("--plans", type=int, default=4)
    options = parser.parse_args()
    text = "0123456789abcdef" * (options.mb * MB // 16)
    print(f"a text of {options.mb} MB\n")
    print("| plans at once | this process, MB | sealed files | sealed, MB | kernels (PSS), MB |\n|---|---|---|---|---|")
    for plans in (1, options.plans):
        gc.collect()  # what the run before has left
        seen = asyncio.run(measure(text, plans))
        print(f"| {plans} | {seen['host']:.0f} | {seen['files']:.0f} | {seen['sealed']:.0f} | {seen['kernels']:.0f} |")


if __name__ == "__main__":
    main()
