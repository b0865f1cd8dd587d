"""Whole runs of each contender, for `benchmarks/runtime.py`: the same cells, from a model that answers at once."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

Sent = list[tuple[str, str]]
"""One request to a model: roles and texts, the system prompt first."""

DOC = "".join(f"2031-05-04 12:00:{number % 60:02d} worker-17 accepted order {number}\n" for number in range(200))
QUESTION = "What is the sum of the squares below a thousand?"
ANSWER = 332833500

FIVE = (
    "squares = [i * i for i in range(1000)]\nprint(len(squares))",
    "total = sum(squares)\nprint(total)",
    "import math\nroot = math.sqrt(total)\nprint(round(root, 3))",
    "evens = [n for n in squares if n % 2 == 0]\nprint(len(evens), sum(evens))",
)
"""The cells before the one that submits `total`."""


def trajectory(iterations: int) -> tuple[str, ...]:
    """Cells for a longer run, each printing about 1,500 characters."""
    prints = "print('\\n'.join(f'{step:02d}.{row:02d} accepted order {row * 7919 + step} of 12 units at 3.50' {loop}))"
    cells = ["total = sum([i * i for i in range(1000)])\n" if not step else "" for step in range(iterations - 1)]
    return tuple(
        f"{cell}step = {step}\n{prints.replace('{loop}', 'for row in range(30)')}" for step, cell in enumerate(cells)
    )


THOUGHT = "I look at what the last step printed, and go on with the next part of the question from there."


class Loop(Protocol):
    """A contender that runs cells to an answer. Everything that is done once for the process is in `setup`."""

    @classmethod
    def setup(cls) -> str:
        """Import, and start what is shared by runs. Returns the version."""

    @classmethod
    def settle(cls) -> None:
        """Wait until work in the background is done; never measured."""

    @classmethod
    def teardown(cls) -> None:
        """Stop what `setup` started."""

    def __init__(self, cells: tuple[str, ...]) -> None:
        """Make the model that will write these cells and then submit; never measured."""

    def run(self) -> Any:
        """The whole run, from the inputs to the answer."""

    def sent(self) -> list[Sent]:
        """What the model was sent, request by request."""


class Defaults:
    """What most contenders have in common."""

    submit: ClassVar[str] = "SUBMIT(answer=total)"

    @classmethod
    def settle(cls) -> None:
        return

    @classmethod
    def teardown(cls) -> None:
        return


@dataclass(frozen=True)
class Entry:
    """Where a contender is found, and what stands between its code and the host."""

    key: str
    label: str
    where: str
    boundary: str
    ours: bool = False
    apart: bool = False
    """Sandboxed, or in a process of its own: a peer for the target."""

    heavy: bool = False
    """Too slow for every round."""

    def load(self) -> type[Loop]:
        module, _, name = self.where.partition(":")
        loop: type[Loop] = getattr(importlib.import_module(f"loops.{module}"), name)
        return loop


LOOPS = (
    Entry("ours", "ours, from the pool", "ours:Ours", "sandboxed, a process of its own", ours=True),
    Entry("dspy-ours", "dspy.RLM on our sandbox", "ours:DspyOnOurs", "sandboxed, a process of its own", ours=True),
    Entry("dspy-deno", "dspy.RLM, PythonInterpreter", "dspy_rlm:OnDeno", "sandboxed (Pyodide in Deno)", apart=True),
    Entry("dspy-local", "dspy.RLM, LocalInterpreter", "dspy_rlm:OnLocal", "none, a child process", apart=True),
    Entry("rlms", "rlms, local", "rlms_loop:Local", "none, exec() in the host"),
    Entry("rlms-kernel", "rlms, ipython subprocess", "rlms_loop:Kernel", "none, an ipykernel", apart=True, heavy=True),
    Entry("smolagents", "smolagents, local", "smolagents_loop:Agent", "none, walks the syntax tree in the host"),
)

BY_KEY = {entry.key: entry for entry in LOOPS}
