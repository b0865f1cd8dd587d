"""Runs inside the interpreter of one contender of `runtime.py`: takes orders as JSON lines, measures here, answers.

Started with `-P`, as `worker.py` is, and reaches its neighbours through the end of `sys.path`.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

import orders
from loops import ANSWER, BY_KEY, FIVE, Loop, trajectory


class WrongAnswer(Exception):
    """A contender came to another answer: its times mean nothing."""


def expect(got: Any) -> None:
    if got != ANSWER:
        raise WrongAnswer(f"answered {got!r}, not {ANSWER}")


def five(kind: type[Loop], count: int) -> dict[str, Any]:
    """Whole runs of five iterations."""
    samples = []
    for _ in range(count):
        loop = kind(FIVE)
        kind.settle()
        before = time.perf_counter()
        answer = loop.run()
        samples.append(time.perf_counter() - before)
        expect(answer)
    return {"samples": samples}


def tokens(kind: type[Loop], iterations: int) -> dict[str, Any]:
    """What a longer run sends, in characters; and how much of it was sent before, at the same place."""
    loop = kind(trajectory(iterations))
    expect(loop.run())
    requests = ["\n".join(f"<{role}>\n{text}" for role, text in one) for one in loop.sent()]
    pairs = list(itertools.pairwise(requests))
    return {
        "requests": len(requests),
        "sent": sum(map(len, requests)),
        "first": len(requests[0]),
        "last": len(requests[-1]),
        "known": sum(_common(old, new) for old, new in pairs),
        "kept": sum(_common(old, new) / len(old) for old, new in pairs) / len(pairs),
    }


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common from the start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def obey(kind: type[Loop], order: dict[str, Any]) -> dict[str, Any]:
    name = order.pop("do")
    if name == "setup":
        return {"version": kind.setup()}
    if name == "teardown":
        kind.teardown()
        return {}
    if name in ("five", "tokens"):
        return {"five": five, "tokens": tokens}[name](kind, **order)
    import loads

    return loads.LOADS[name](kind, **order)


if __name__ == "__main__":
    contender = BY_KEY[sys.argv[1]].load()
    orders.serve(lambda order: obey(contender, order))
