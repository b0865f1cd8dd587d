"""Events of usual size, told to a writer: what one costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlm.events import Event
from rlm.traces import TraceWriter
from rlm.traces.recorder import Recorder
from tests.support.events import make_event

_SYSTEM = "You work in a Python REPL. " * 100


def story(run: str, events: int) -> Iterator[Event]:
    """The events of a long run: seven an iteration."""
    yield make_event("run_started", run, {"signature": {"name": "Story"}, "inputs": {"doc": "a text"}})
    told = 1
    number = 0
    while told < events:
        number += 1
        reply, printed = f"I look at part {number}. " * 20, f"{number}: accepted order\n" * 60
        asked = {"id": number, "role": "main", "iteration": number, "call": None, "model": "scripted/main"}
        for kind, data in (
            ("iteration_started", {"iteration": number}),
            ("model_asked", {**asked, "kept": number, "system": _SYSTEM, "turns": [["user", printed]]}),
            ("model_answered", {"id": number, "text": reply, "tokens_in": 9, "tokens_out": 3, "seconds": 0.5}),
            ("cell_started", {"iteration": number, "code": f"print(part({number}))\n" * 10}),
            ("cell_ended", {"iteration": number, "output": printed, "success": True, "seconds": 0.01}),
            ("history", {"iteration": number, "reasoning": reply, "told": printed}),
            ("budget", {"iterations": number, "max_iterations": 20, "llm_calls": 0, "seconds": 1.0}),
        ):
            told += 1
            yield make_event(kind, run, data)


def measure(home: Path, count: int) -> dict[str, Any]:
    """Tell so many events, no faster than a busy run does, and write as many by hand."""
    events = list(story("a" * 12, count))
    puts = []
    with TraceWriter(home) as writer:
        for number, event in enumerate(events):
            before = time.perf_counter()
            writer(event)
            puts.append(time.perf_counter() - before)
            if number % 50 == 49:
                writer.flush()
        writer.flush()
        assert writer.problem is None, writer.problem
    size = sum(file.stat().st_size for file in writer.folder.iterdir())
    puts.sort()
    return {
        "events": len(events),
        "put_median": puts[len(puts) // 2],
        "put_99": puts[len(puts) * 99 // 100],
        "cpu": _written(home / "batches", events, 12, time.thread_time),
        "single": _written(home / "single", events[: count // 4], 1, time.perf_counter),
        "bytes": size,
        "text": sum(len(str(event.data)) for event in events),
    }


def _written(folder: Path, events: list[Event], batch: int, clock: Any) -> float:
    recorder = Recorder(folder)
    before = clock()
    for at in range(0, len(events), batch):
        recorder.write(events[at : at + batch])
    took = clock() - before
    recorder.close()
    return float(took / len(events))
