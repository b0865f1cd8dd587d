"""Processes that are made to be killed, and what their traces must hold. Run as a module, it is such a process.

python -m tests.support.killed_processes ...

write HOME SEED [STATEMENT]    writes a story of events; says after which it was told they are written; kills itself at
                               the given SQL statement
runs HOME NAME COUNT           writes so many whole runs
full HOME PAGES|BYTES          writes until there is no more room, and goes on
drive HOME LOG                 a real run in the sandbox
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from rlm.traces import RunRecord, TraceWriter
from tests.support.events import make_event

KINDS = ("iteration_started", "model_answered", "cell_started", "call_ended", "cell_ended", "history")
STEPS = 12


def story(seed: int, number: int) -> tuple[str, dict[str, Any]]:
    """The event with this number: anyone can tell what must be in it."""
    if number == 1:
        return "run_started", {"signature": {"name": "Story"}, "inputs": {"doc": _text(seed, 0, 3_000_000)}}
    kind = KINDS[number % len(KINDS)]
    length = (10, 3_000, 40_000)[number % 3]
    return kind, {"iteration": number, "id": number, "text": _text(seed, number, length)}


def check_story(run: RunRecord, seed: int) -> int:
    """Whether all that is on record is what was written, with no gap; how many events there are."""
    events = run.events()
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert run.event_count == len(events)
    for event in events:
        kind, data = story(seed, event.sequence)
        assert event.kind == kind
        if event.sequence == 1:
            assert run.inputs() == data["inputs"]
        else:
            assert run.resolve(event.data) == data
    assert [row[0] for row in run.file.query("PRAGMA integrity_check")] == ["ok"]
    return len(events)


def run_id(seed: int) -> str:
    """The id of the story's run."""
    return f"{seed:012x}"


REPLIES = [
    *(
        f"Step {number}.\n```python\nfor n in range(3):\n    total = slow({number}, n)\nprint({number}, total)\n```"
        for number in range(STEPS)
    ),
    "Done.\n```python\nSUBMIT(n=total)\n```",
]
ANSWER = STEPS * 10 - 8


def driver(observe: Any, log: Path, replies: list[str], pool: Any = None) -> Any:
    """A run whose code calls a slow function of the host, which keeps a log of its calls."""
    from rlm.budgets import FallbackTrigger
    from rlm.models.scripted import scripted_lm
    from rlm.repl.config import RunConfig
    from rlm.signatures import Signature

    def slow(step: int, n: int) -> int:
        """Takes a moment."""
        with log.open("a") as file:
            file.write(f"{step},{n}\n")
        time.sleep(0.004)
        return step * 10 + n

    return RunConfig(
        Signature.of("doc -> n: int"),
        scripted_lm(replies),
        trigger=FallbackTrigger(max_iterations=30),
        tools={"slow": slow},
        observe=observe,
        pool=pool,
    )


def _text(seed: int, number: int, length: int) -> str:
    line = hashlib.sha256(f"{seed}:{number}".encode()).hexdigest()
    return (line + "\n") * (length // 65) + line[: length % 65]


def _write(home: str, seed: str, statement: str = "0") -> None:
    killing_at, seen = int(statement), 0

    def count(sql: str) -> None:
        nonlocal seen
        seen += 1
        if seen == killing_at:
            os.kill(os.getpid(), signal.SIGKILL)

    writer = TraceWriter(home, on_connect=lambda one: one.set_trace_callback(count) if killing_at else None)
    number = 0
    while True:
        number += 1
        writer(make_event(story(int(seed), number)[0], run_id(int(seed)), story(int(seed), number)[1]))
        if number % 7 == 0 and writer.flush(60):
            print(number, flush=True)


def _runs(home: str, name: str, count: str) -> None:
    with TraceWriter(home) as writer:
        for number in range(int(count)):
            run = f"{name}{number:06d}"
            shared = "the same in every process " * 10_000
            writer(make_event("run_started", run, {"inputs": {"doc": f"{run} " * 1_000, "shared": shared}}))
            for step in range(20):
                writer(make_event("cell_ended", run, {"iteration": step, "output": f"{run} {step} " * 100}))
            writer(make_event("run_ended", run, {"ending": "Submitted", "result": {"outputs": {"n": number}}}))
        assert writer.flush(60), writer.problem


def _full(home: str, room: str) -> None:
    said: list[str] = []
    on_connect = None
    if room.endswith("pages"):
        pages = int(room.removesuffix("pages"))
        on_connect = lambda one: one.execute(f"PRAGMA max_page_count = {pages}")  # noqa: E731
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), int(room)))
    writer = TraceWriter(home, on_problem=said.append, on_connect=on_connect)
    for number in range(1, 2_000):
        writer(make_event(story(1, number)[0], run_id(1), story(1, number)[1]))
        if number % 50 == 0:
            writer.flush(60)
    writer.flush(60)
    writer.close()
    print(len(said), said[0] if said else "")


def _drive(home: str, log: str) -> None:
    with TraceWriter(home) as writer:
        print("ready", flush=True)
        asyncio.run(driver(writer, Path(log), REPLIES).run({"doc": "a text"}))


if __name__ == "__main__":
    {"write": _write, "runs": _runs, "full": _full, "drive": _drive}[sys.argv[1]](*sys.argv[2:])
