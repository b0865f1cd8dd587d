"""Whole runs against peers, in one go: `python benchmarks/runtime.py [--quick] [--json FILE] [--only PART]`.

Four parts: five iterations with a model of zero latency, by turns with the peers; `llm_batch` against a local server
that takes 50 ms; what twenty iterations send to a model; 200 runs at once. Every contender has a process of its own
(`runtime_worker.py`); `make bench` creates the environment of the peers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import runtime_table
from loops import BY_KEY, LOOPS
from runtime_results import BATCH, DELAY_S, PARALLEL, RUNS, SINGLE, SINGLE_DELAY_S, RuntimeResults
from transports import CLIENTS, SLOW, TRANSPORTS
from workers import HERE, ROOT, Stopped, Worker, shorten

ITERATIONS = 20


class Workers:
    """The workers of a run, started when they are first asked; who failed once is not asked again."""

    def __init__(self, results: RuntimeResults, venv: Path) -> None:
        self.results, self.venv = results, venv
        self._workers: dict[str, Worker] = {}

    def ask(self, key: str, part: str, **order: Any) -> dict[str, Any]:
        if key in self.results.failures.get(part, {}) or key in self.results.failures.get("setup", {}):
            return {}
        try:
            worker = self._workers.get(key) or self._start(key)
            answer = worker.ask(**order)
        except Stopped as stopped:
            self._workers.pop(key, None)
            answer = {"error": str(stopped)}
        if "error" in answer:
            self.results.fail(part, key, shorten(answer["error"]))
            return {}
        return answer

    def _start(self, key: str) -> Worker:
        entry = BY_KEY[key]
        python = Path(sys.executable) if entry.ours else self.venv / "bin" / "python"
        if not python.exists():
            raise Stopped(f"{python} is missing; `make bench` creates it")
        worker = Worker(key, python, self.venv / "deno-cache", ours=entry.ours, script="runtime_worker.py")
        self._workers[key] = worker
        answer = worker.ask(do="setup")
        if "error" in answer:
            raise Stopped(answer["error"])
        self.results.versions[key] = answer["version"]
        return worker

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()


class ChatServer:
    """The local server that answers after a set time."""

    def __init__(self, delay: float) -> None:
        self.delay = delay

    def __enter__(self) -> ChatServer:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "chat_server.py"), str(self.delay)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        return self

    def stats(self) -> dict[str, int]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=5) as answer:
            found: dict[str, int] = json.load(answer)
        return found

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def five(workers: Workers, quick: bool) -> None:
    """Five iterations, whole runs, contenders by turns."""
    for entry in LOOPS:
        workers.ask(entry.key, "five", do="five", count=1)  # imports and caches; not counted
    for number in range(3 if quick else 8):
        shift = number % len(LOOPS)
        for entry in LOOPS[shift:] + LOOPS[:shift]:
            if entry.heavy and number >= 2:
                continue
            answer = workers.ask(entry.key, "five", do="five", count=1 if entry.heavy else 3)
            workers.results.five.setdefault(entry.key, []).extend(answer.get("samples", []))


def batch(workers: Workers, quick: bool) -> None:
    """A thousand prompts, a hundred at a time, over each transport; asyncio streams say what the machine allows."""
    results = workers.results
    rounds = 2 if quick else 7
    with ChatServer(DELAY_S) as server:
        order = {"port": server.port, "count": BATCH, "parallel": PARALLEL}
        _by_turns(workers, results.batch, rounds, order)
        results.server = server.stats()
        if not quick and (answer := workers.ask("dspy-local", "dspy_batch", do="dspy_batch", **order)):
            results.batch["dspy_batch"] = [answer]
    with ChatServer(SINGLE_DELAY_S) as server:
        _by_turns(workers, results.single, rounds, {"port": server.port, "count": SINGLE, "parallel": 1})


def _by_turns(workers: Workers, found: dict[str, list[dict[str, float]]], rounds: int, order: dict[str, Any]) -> None:
    """Each transport alone, and `llm_batch` over it, round by round; imports and first connections are not counted."""
    for number in range(rounds + 1):
        for transport in TRANSPORTS:
            if transport in SLOW and number > 1:
                continue
            for load in ("batch", "bare_batch") if transport in CLIENTS else ("bare_batch",):
                size = {} if number else {"count": PARALLEL}
                name = f"{load} {transport}"
                answer = workers.ask("ours", name, do=load, transport=transport, limit=300.0, **order | size)
                if answer and number:
                    found.setdefault(name, []).append(answer)


def tokens(workers: Workers, quick: bool) -> None:
    """What a run of twenty iterations sends, on the same trajectory."""
    lost = workers.results.failures.get("five", {})  # said once
    for entry in LOOPS:
        if not entry.heavy and entry.key != "dspy-ours" and entry.key not in lost:
            answer = workers.ask(entry.key, "tokens", do="tokens", iterations=ITERATIONS)
            if answer:
                workers.results.tokens[entry.key] = answer


def at_once(workers: Workers, quick: bool) -> None:
    """Two hundred runs in one event loop: timed, and once more held to look at them while all are alive."""
    for name, held in (("timed", False), ("held", True)):
        answer = workers.ask("ours", "at_once", do="at_once", count=RUNS, held=held)
        if answer:
            workers.results.at_once[name] = answer


PARTS: dict[str, Callable[[Workers, bool], None]] = {
    "five": five,
    "batch": batch,
    "tokens": tokens,
    "at_once": at_once,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there, too")
    parser.add_argument("--only", choices=PARTS, help="one part only")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-bench", help="the environment of the peers")
    options = parser.parse_args()

    results = RuntimeResults(
        heading=f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}",
    )
    workers = Workers(results, options.venv.absolute())
    try:
        for name in [options.only] if options.only else PARTS:
            began = time.monotonic()
            PARTS[name](workers, options.quick)
            results.load[name] = os.getloadavg()[0]
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    finally:
        workers.close()
    runtime_table.print_results(results)
    if options.json:
        options.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")


if __name__ == "__main__":
    main()
