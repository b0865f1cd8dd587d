"""Batches that are made to be killed, engines for them that need no sandbox, and drivers that run in a process."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rlm.batch.driver import Batch, Rules
from rlm.batch.errors import BatchError
from rlm.batch.item import Item
from rlm.batch.ledger import Ledger
from rlm.batch.outcome import Outcome
from rlm.batch.results_file import Results
from rlm.batch.source import Source

TASK = """\
signature: "n: int, word: str -> twice: int"
models: {scripted: replies.yaml}
budget: {max_iterations: 2, max_duration: 1m}
"""
REPLIES = """\
main:
  - |
    ```python
    SUBMIT(twice=2 * n)
    ```
"""


def write_folder(folder: Path, rows: int, *, task: str = TASK, replies: str = REPLIES) -> Path:
    """A task with rows: `n` counts up, each `twice` is known."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.yaml").write_text(task)
    (folder / "replies.yaml").write_text(replies)
    (folder / "rows.csv").write_text("n,word\n" + "".join(f"{n},word {n}\n" for n in range(1, rows + 1)))
    return folder


def source_of(folder: Path, **options: Any) -> Source:
    return Source([folder / "task.yaml"], folder / "rows.csv", **options)


class QuickEngine:
    """Answers at once, several items at a time and not in order; no sandbox, no process."""

    def __init__(self, answer: Callable[[Item], Outcome] | None = None, at_once: int = 3, pause: float = 0.0) -> None:
        self.taken: list[Item] = []
        self._answer, self._at_once, self._pause = answer or answered, at_once, pause

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        source, has = iter(items), deque[Item]()
        while True:
            while len(has) < self._at_once and (item := next(source, None)) is not None:
                self.taken.append(item)
                has.append(item)
            if not has:
                return
            has.rotate(1)
            if self._pause:
                time.sleep(self._pause)
            yield self._answer(has.popleft())

    def close(self) -> None:
        """Nothing to close."""


def answered(item: Item, cost: float | None = 0.25) -> Outcome:
    usage = {"tokens_in": 10, "tokens_out": 5, "cost_usd": cost, "unpriced_calls": 0 if cost is not None else 1}
    result = {"outputs": {"twice": 2 * item.inputs["n"]}, "confidence": 1.0, "usage": usage}
    return Outcome(item.key, item.name, "Submitted", result, None, 0.5, "here:1", f"run{item.inputs['n']}")


def failed(item: Item, error: str = "it would not") -> Outcome:
    return Outcome(item.key, item.name, "Failed", None, error, 0.5, "here:1")


def drive(
    folder: Path,
    engine: Any,
    *,
    rules: Rules | None = None,
    retry_failed: bool = False,
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> tuple[Batch, list[Outcome]]:
    """A whole session of a batch in this process."""
    ledger = Ledger(folder / "ledger.db")
    try:
        batch = Batch(source_of(folder, **options), ledger, rules, tell=tell)
        batch.prepare(retry_failed=retry_failed)
        results = Results(folder / "results.jsonl", ledger)
        try:
            return batch, list(batch.run(engine, results))
        finally:
            results.close()
    finally:
        ledger.close()


def lines(folder: Path) -> list[dict[str, Any]]:
    """The results; every line is whole."""
    text = (folder / "results.jsonl").read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def check_complete(folder: Path, rows: int) -> None:
    """Every item has exactly one line, and its own answer."""
    found = lines(folder)
    assert Counter(one["item"] for one in found) == Counter(f"row {n}" for n in range(1, rows + 1))
    assert {one["number"]: one["outputs"]["twice"] for one in found} == {n: 2 * n for n in range(1, rows + 1)}


def check_told(folder: Path, rows: int) -> None:
    """Whatever engine ran them: of every item the same is told."""
    same = ("number", "item", "ending", "outputs", "confidence", "error")
    told = sorted([one.get(name) for name in same] for one in lines(folder))
    assert told == [[n, f"row {n}", "Submitted", {"twice": 2 * n}, 1.0, None] for n in range(1, rows + 1)]


def drive_to_be_killed(folder: Path, said: Path, statement: int = 0, retry_failed: bool = False) -> None:
    """A driver in a process of its own: notes what it yields, and kills itself at the given SQL statement."""
    seen = 0

    def count(sql: str) -> None:
        nonlocal seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    ledger = Ledger(folder / "ledger.db")
    if statement:
        ledger._db.set_trace_callback(count)
    batch = Batch(source_of(folder), ledger)
    batch.prepare(retry_failed=retry_failed)
    results = Results(folder / "results.jsonl", ledger)
    with said.open("a") as file:
        for outcome in batch.run(QuickEngine(pause=0.0 if statement else 0.001), results):
            file.write(outcome.name + "\n")
            file.flush()
    results.close()
    ledger.close()


def drive_without_room(folder: Path, said: Path, room: int) -> None:
    """A driver whose files may not be larger than so many bytes; notes what it was told."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        drive(folder, QuickEngine())
    except BatchError as error:
        said.write_text(f"{type(error).__name__}: {error}")
