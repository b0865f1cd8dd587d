"""Runs inside the interpreter of one contender of `traces.py`: the same trajectory, and how much is kept of it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

import loops
import orders

loops.DOC = "".join(
    f"2031-05-04 12:00:{number % 60:02d} worker-{number * 7919 % 104729} accepted order {number * 104729 % 1299709}\n"
    for number in range(185_000)
)
"""Ten megabytes; before the contenders' modules are imported, which take the text from here."""


def ours(iterations: int, home: Path) -> dict[str, int]:
    import asyncio

    from loops.ours import reply

    import sandbox
    from rlm.budgets import FallbackTrigger
    from rlm.models.scripted import scripted_lm
    from rlm.repl.config import RunConfig
    from rlm.signatures import Signature
    from rlm.traces import TraceWriter

    first, *others = loops.trajectory(iterations)
    # Values are only taken from code that has read the input.
    cells = [reply(cell) for cell in (f"size = len(doc)\n{first}", *others, "SUBMIT(answer=total)")]
    with TraceWriter(home) as writer, sandbox.Pool(size=1) as pool:
        driver = RunConfig(
            Signature.of("doc: str, question: str -> answer: int"),
            scripted_lm(cells),
            trigger=FallbackTrigger(max_iterations=iterations + 5, max_duration=600),
            observe=writer,
            pool=pool,
        )
        result = asyncio.run(driver.run({"doc": loops.DOC, "question": loops.QUESTION}))
    if result.outputs is None:
        raise RuntimeError(f"the run ended as {result}"[:500])
    _expect(result.outputs.answer)
    assert writer.problem is None, writer.problem
    return {"ours": sum(file.stat().st_size for file in writer.folder.iterdir())}


def rlms(iterations: int, home: Path) -> dict[str, int]:
    from unittest import mock

    from loops.rlms_loop import Local
    from rlm.logger import RLMLogger

    from rlm import RLM

    loop = Local(loops.trajectory(iterations))
    loop.rlm = RLM(
        backend="openai",
        backend_kwargs={"model_name": "scripted"},
        max_iterations=iterations + 5,
        logger=RLMLogger(log_dir=str(home)),
        **Local.environment,
    )
    with mock.patch("rlm.core.rlm.get_client", return_value=loop.client):
        answer = loop.rlm.completion(loops.DOC, root_prompt=loops.QUESTION).response
    _expect(int(answer))
    return {"rlms": sum(file.stat().st_size for file in home.iterdir())}


def dspy_history(iterations: int, home: Path) -> dict[str, int]:
    import dspy
    from loops.dspy_rlm import OnLocal

    loop = OnLocal(loops.trajectory(iterations))
    module = dspy.RLM(
        "doc: str, question: str -> answer: int", max_iters=iterations + 5, interpreter_factory=dspy.LocalInterpreter
    )
    with dspy.context(lm=loop.lm, max_history_size=10_000):
        answer = module(doc=loops.DOC, question=loops.QUESTION)
    _expect(answer.answer)
    if len(loop.lm.history) != iterations:
        raise RuntimeError(f"its history has {len(loop.lm.history)} entries, not {iterations}")
    return {
        "dspy": len(json.dumps(loop.lm.history, default=str)),
        "dspy-trajectory": len(json.dumps(answer.trajectory, default=str)),
    }


def _expect(answer: Any) -> None:
    if answer != loops.ANSWER:
        raise RuntimeError(f"answered {answer!r}, not {loops.ANSWER}")


KEEPERS = {"ours": ours, "rlms": rlms, "dspy": dspy_history}


def obey(order: dict[str, Any]) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="rlm-bench-") as home:
        return KEEPERS[sys.argv[1]](order["iterations"], Path(home))


if __name__ == "__main__":
    orders.serve(obey)
