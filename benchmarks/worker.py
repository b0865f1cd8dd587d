"""Runs inside the interpreter of one contender: takes orders as JSON lines, measures here, answers as JSON lines.

Only the standard library and the contender itself are imported, so that one file serves both environments. It is
started with `-P` and reaches `peers` through the end of `sys.path`: nothing here may hide a package of a contender's.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

import orders
import processes
from peers import BY_KEY, Contender

Samples = dict[str, list[float]]

FIVE_CELLS = (
    "a = [i * i for i in range(1000)]",
    "def double(n):\n    return n * 2",
    "b = sum([double(n) for n in a])",
    "import math\nroot = math.sqrt(b)",
    "print(b)",
)
FIVE_CELLS_PRINT = "665667000"

LOOP = "def work(n):\n    total = 0\n    for i in range(n):\n        total += i * i % 7\n    return total"


class WrongAnswer(Exception):
    """A contender printed something else than the code prints: its times mean nothing."""


def expect(got: str, wanted: str) -> None:
    if got.strip() != wanted:
        raise WrongAnswer(f"printed {got.strip()[:80]!r}, not {wanted!r}")


def measure_start(kind: type[Contender], most: int = 5, seconds: float = 0.5) -> Samples:
    """Start to first reply; several times where that is quick."""
    samples: list[float] = []
    while not samples or (len(samples) < most and sum(samples) < seconds):
        kind.settle()
        session = kind()
        before = time.perf_counter()
        session.start()
        printed = session.run("print(1 + 1)")
        samples.append(time.perf_counter() - before)
        session.close()
        expect(printed, "2")
    return {"start": samples}


def measure_cell(kind: type[Contender], count: int) -> Samples:
    """One small cell, in a session that is warm."""
    session = kind()
    session.start()
    for _ in range(5):
        session.run("x = 1 + 1")
    kind.settle()
    samples = []
    for _ in range(count):
        before = time.perf_counter()
        session.run("x = 1 + 1")
        samples.append(time.perf_counter() - before)
    expect(session.run("print(x)"), "2")
    session.close()
    return {"cell": samples}


def measure_call(kind: type[Contender], count: int, repeats: int = 3) -> Samples:
    """From one call of a host function to the next, in a cell that makes `count` of them: the median of a cell."""
    if kind.call is None:
        return {}
    moments: list[float] = []

    def ask(prompt: str) -> str:
        moments.append(time.perf_counter())
        return "ok"

    session = kind()
    session.start({"ask": ask})
    session.run(f"for _ in range(5):\n    {kind.call}")
    kind.settle()
    samples = []
    for _ in range(repeats):
        moments.clear()
        session.run(f"for _ in range({count}):\n    {kind.call}")
        expect(str(len(moments)), str(count))
        samples.append(statistics.median(after - before for before, after in itertools.pairwise(moments)))
    session.close()
    return {"call": samples}


def measure_text(kind: type[Contender], megabytes: int) -> Samples:
    """A text made a variable, and its length read back."""
    line = '2031-05-04 12:00:01 worker-17 accepted order 58213 from "north" for 12 units at 3.50\n'
    size = megabytes * 1_000_000
    text = (line * (size // len(line) + 1))[:size]
    samples = []
    for _ in range(3 if megabytes >= 100 else 1):
        session = kind()
        session.before_load()
        kind.settle()
        before = time.perf_counter()
        printed = session.load("doc", text, "print(len(doc))")
        samples.append(time.perf_counter() - before)
        session.close()
        expect(printed, str(size))
    return {f"text{megabytes}": samples}


def measure_loop(kind: type[Contender], count: int, slices: int = 8) -> Samples:
    """CPU-bound code as a ratio to plain CPython, in processor time of all processes that take part.

    Slices of the loop run by turns here and there; the best of each counts.
    """
    session = kind()
    session.start()
    session.run(LOOP)
    kind.settle()
    pids = {os.getpid()} | processes.with_descendants(session.pids())
    plain, theirs = [], []
    for _ in range(slices):
        plain.append(_plain_loop(count // slices))
        before = processes.processor_seconds(pids)
        session.run(f"total = work({count // slices // kind.loop_share})")
        theirs.append((processes.processor_seconds(pids) - before) * kind.loop_share)
    session.close()
    return {"loop": [min(theirs) / min(plain)]}


def _plain_loop(count: int) -> float:
    namespace: dict[str, Any] = {}
    exec(LOOP, namespace)
    before = time.process_time()
    namespace["work"](count)
    return time.process_time() - before


def calibrate(seconds: float) -> int:
    """How many iterations of the loop take CPython so long."""
    trial = 1_000_000
    return int(trial * seconds / min(_plain_loop(trial) for _ in range(3)))


def measure_memory(kind: type[Contender], count: int) -> Samples:
    """Bytes for each of `count` idle sessions: what their processes hold, or what this process grew by."""
    first = kind()
    first.start()
    first.run("x = 1")
    first.close()
    gc.collect()
    before = processes.pss(os.getpid())
    sessions = [kind() for _ in range(count)]
    for session in sessions:
        session.start()
        session.run("x = 1")
    kind.settle()
    time.sleep(0.3)
    if kind.in_process:
        used = processes.pss(os.getpid()) - before
    else:
        roots = {pid for session in sessions for pid in session.pids()}
        used = sum(processes.pss(pid) for pid in processes.with_descendants(roots))
    for session in sessions:
        session.close()
    return {"memory": [used / count]}


def measure_five(kind: type[Contender]) -> Samples:
    """A whole short session: start, five cells, close."""
    kind.settle()
    session = kind()
    before = time.perf_counter()
    session.start()
    printed = [session.run(code) for code in FIVE_CELLS][-1]
    session.close()
    samples = [time.perf_counter() - before]
    expect(printed, FIVE_CELLS_PRINT)
    return {"five": samples}


MEASURES: dict[str, Callable[..., Samples]] = {
    "start": measure_start,
    "cell": measure_cell,
    "call": measure_call,
    "text": measure_text,
    "loop": measure_loop,
    "memory": measure_memory,
    "five": measure_five,
}


def obey(kind: type[Contender], order: dict[str, Any]) -> dict[str, Any]:
    name = order.pop("do")
    if name == "setup":
        return {"version": kind.setup()}
    if name == "calibrate":
        return {"count": calibrate(**order)}
    if name == "teardown":
        kind.teardown()
        return {}
    return {"samples": MEASURES[name](kind, **order)}


if __name__ == "__main__":
    contender = BY_KEY[sys.argv[1]].load()
    orders.serve(lambda order: obey(contender, order))
