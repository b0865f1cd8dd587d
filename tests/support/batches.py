"""Batches for tests, an executor without sandboxes or processes, and drivers that are killed."""

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

from rlm.batch.driver import Batch, StopRules
from rlm.batch.errors import BatchError
from rlm.batch.item import Item, Outcome
from rlm.batch.ledger import Ledger
from rlm.batch.results_file import ResultsFile
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
    """Write a task with rows: `n` counts up, so that each `twice` is known."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.yaml").write_text(task)
    (folder / "replies.yaml").write_text(replies)
    (folder / "rows.csv").write_text("n,word\n" + "".join(f"{n},word {n}\n" for n in range(1, rows + 1)))
    return folder


def source_of(folder: Path, **options: Any) -> Source:
    return Source([folder / "task.yaml"], folder / "rows.csv", **options)


class InlineExecutor:
    """Answers items immediately, several at a time and out of order, without sandboxes or processes."""

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
    executor: Any,
    *,
    rules: StopRules | None = None,
    retry_failed: bool = False,
    notify: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> tuple[Batch, list[Outcome]]:
    """Run a whole session of a batch in this process."""
    ledger = Ledger(folder / "ledger.db")
    try:
        batch = Batch(source_of(folder, **options), ledger, rules, notify=notify)
        batch.prepare(retry_failed=retry_failed)
        results = ResultsFile(folder / "results.jsonl", ledger)
        try:
            return batch, list(batch.run(executor, results))
        finally:
            results.close()
    finally:
        ledger.close()


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the results; every line must be complete."""
    text = (folder / "results.jsonl").read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def check_complete(folder: Path, rows: int) -> None:
    """Every item has exactly one line, with its own answer."""
    found = lines(folder)
    assert Counter(one["item"] for one in found) == Counter(f"row {n}" for n in range(1, rows + 1))
    assert {one["number"]: one["outputs"]["twice"] for one in found} == {n: 2 * n for n in range(1, rows + 1)}


def check_lines(folder: Path, rows: int) -> None:
    """Every line has the same values, whichever executor ran the items."""
    same = ("number", "item", "ending", "outputs", "confidence", "error")
    found = sorted([line.get(name) for name in same] for line in lines(folder))
    assert found == [[n, f"row {n}", "Submitted", {"twice": 2 * n}, 1.0, None] for n in range(1, rows + 1)]


def drive_to_be_killed(folder: Path, log: Path, statement: int = 0, retry_failed: bool = False) -> None:
    """Drive a batch in a process of its own; log each outcome, and kill the process at the given SQL statement."""
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
    results = ResultsFile(folder / "results.jsonl", ledger)
    with log.open("a") as file:
        for outcome in batch.run(InlineExecutor(pause=0.0 if statement else 0.001), results):
            file.write(outcome.name + "\n")
            file.flush()
    results.close()
    ledger.close()


def drive_without_space(folder: Path, log: Path, limit: int) -> None:
    """Drive a batch whose files may have at most so many bytes; log the error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        drive(folder, InlineExecutor())
    except BatchError as error:
        log.write_text(f"{type(error).__name__}: {error}")
