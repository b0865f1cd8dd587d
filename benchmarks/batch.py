"""Many tasks: `python benchmarks/batch.py [--tasks N] [--rounds N] [--long N] [--only NAME...] [--json FILE]`.

The same scripted tasks, each with its own kernel, by contenders that take turns, each in a process of its own: a bare
loop (one process, one task after the other), `rlm batch` with one worker and one task at a time (which is the bare
loop and what a batch adds to it), `rlm batch` as it is, with processes and with Ray, and `dspy.Evaluate` with threads;
and the driver of a batch alone, with an engine that answers at once. Processors that are all busy are slower each, so
what uses several is compared with as many bare loops at once. Then a long batch for each engine: nothing may be lost,
and memory must not grow.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
CONTENDERS = {
    "bare": "a bare loop",
    "bare x2": "two bare loops at once",
    "local 1x1": "rlm batch, 1 process, 1 at once",
    "local": "rlm batch",
    "ray 1x1": "rlm batch, Ray, 1 actor, 1 at once",
    "ray": "rlm batch, Ray",
    "evaluate": "dspy.Evaluate, threads",
    "driver": "rlm batch, an engine that does nothing",
}
LONG = ("local", "ray")
LIKE = {"local 1x1": "bare", "ray 1x1": "bare", "local": "bare x2", "ray": "bare x2", "evaluate": "bare"}
"""What each contender is compared with."""
GROWTH = 1.10
SLOWER = 1.10


def run(name: str, count: int) -> dict[str, Any]:
    """One contender, once."""
    if name != "bare x2":
        return run_one(name, count)
    with ThreadPoolExecutor(2) as both:
        one, other = both.map(run_one, ("bare", "bare"), (count // 2, count // 2))
    whole = {key: one[key] + other[key] for key in ("processor", "tasks")}
    return {**whole, "seconds": max(one["seconds"], other["seconds"]), "memory": {}}


def run_one(name: str, count: int) -> dict[str, Any]:
    """In a process and a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="rlm-bench-") as folder:
        command = [sys.executable, "-P", str(HERE / "batch_worker.py"), name, folder, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not said:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(said[-1].removeprefix("RESULT "))
    return found


def rate(one: dict[str, Any]) -> float:
    return float(one["tasks"] / one["seconds"])


def processor(one: dict[str, Any]) -> float:
    """Seconds of a processor for each task, kernels included."""
    return float(one["processor"] / one["tasks"])


def times(
    measure: Callable[[dict[str, Any]], float], some: list[dict[str, Any]], others: list[dict[str, Any]]
) -> float:
    """How many times as much it is, compared round by round: a machine is not as quick all the time."""
    return statistics.median(measure(one) / measure(other) for one, other in zip(some, others, strict=True))


def print_rates(console: Console, samples: dict[str, list[dict[str, Any]]]) -> None:
    table = Table(title="median of the rounds", title_justify="left", box=box.SIMPLE)
    for name in ("", "tasks a second", "processor ms a task", "more than bare loops", "tasks a second and processor"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, found in samples.items():
        each = statistics.median(map(processor, found))
        extra = ""
        if samples.get(LIKE.get(name, "")):
            extra = f"{100 * (times(processor, found, samples[LIKE[name]]) - 1):+.1f}%"
        speed = statistics.median(map(rate, found))
        table.add_row(CONTENDERS[name], f"{speed:.1f}", f"{1000 * each:.2f}", extra, f"{1 / each:.1f}")
    console.print(table)


def verdicts(samples: dict[str, list[dict[str, Any]]], long: dict[str, dict[str, Any]]) -> list[tuple[bool, str]]:
    made = []
    bare = samples.get("bare")
    for name in ("local 1x1", "local", "ray 1x1", "ray"):
        like = samples.get(LIKE[name])
        if like and name in samples:
            ratio = times(processor, samples[name], like)
            words = f"{CONTENDERS[name]}: within 10% of {CONTENDERS[LIKE[name]]}, in processor time a task: {ratio:.3f}"
            made.append((ratio <= SLOWER, words))
    if bare and "local 1x1" in samples:
        ratio = times(rate, bare, samples["local 1x1"])
        made.append(
            (ratio <= SLOWER, f"{CONTENDERS['local 1x1']}: within 10% of the bare loop, by the clock: {ratio:.3f}")
        )
    for name, one in long.items():
        lost, double = one["lost"], one["double"]
        made.append((lost == double == 0, f"{CONTENDERS[name]}: nothing lost ({lost}), nothing twice ({double})"))
        (_, early), (_, late) = sorted((int(count), size) for count, size in one["memory"].items())
        words = f"{CONTENDERS[name]}: memory flat: {early / 1e6:,.0f} MB, then {late / 1e6:,.0f} MB"
        made.append((late <= early * GROWTH, words))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=400, help="for each contender and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", type=int, default=10_000, help="tasks of the long batch; 0 leaves it out")
    parser.add_argument("--only", nargs="*", choices=CONTENDERS, help="these contenders alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with_ray = importlib.util.find_spec("ray") is not None
    names = [one for one in CONTENDERS if with_ray or not one.startswith("ray")]
    names = [one for one in names if options.only is None or one in options.only]
    console = Console(width=140, highlight=False)
    console.print(f"{platform.platform()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(options.rounds):
        shift = number % max(1, len(names))
        for name in names[shift:] + names[:shift]:
            samples[name].append(run(name, options.tasks))
            console.print(f"round {number + 1}: {CONTENDERS[name]}: {rate(samples[name][-1]):.1f} tasks a second")
    long: dict[str, dict[str, Any]] = {}
    for name in (one for one in LONG if one in names and options.long):
        long[name] = one = run(name, options.long)
        driver, reading = 1000 * one["driver"] / one["tasks"], 1000 * one["reading"] / options.long
        share = f"of it {driver:.2f} ms a task in the driver, after {reading:.2f} ms to read it"
        console.print(f"long: {CONTENDERS[name]}: {options.long:,} tasks, {rate(one):.1f} a second; {share}")
    if samples.get("bare") or samples.get("bare x2"):
        print_rates(console, samples)
    found = verdicts(samples, long)
    for passed, words in found:
        console.print(f"[{'green' if passed else 'red'}]{'PASS' if passed else 'FAIL'}[/]  {words}")
    if options.json is not None:
        options.json.write_text(json.dumps({"samples": samples, "long": long}, indent=1))
    return 0 if all(passed for passed, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
