"""Real runs, killed at random moments and taken up again from their traces: the story of `tests/crash`, many times."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import sandbox
from rlm.traces import TraceWriter, load, past
from tests.support import killed_processes


@dataclass(frozen=True)
class Killed:
    """What became of one run."""

    seed: int
    well: bool
    said: str = ""
    ended_before: bool = False
    iterations: int = 0
    made: int = 0
    repeated: int = 0


def measure(count: int) -> list[Killed]:
    """Kill and take up again, so many times."""
    found = []
    with sandbox.Pool(size=2) as pool:
        for seed in range(count):
            try:
                with tempfile.TemporaryDirectory(prefix="rlm-bench-") as home:
                    found.append(_one(seed, Path(home), pool))
            except Exception as error:
                found.append(Killed(seed, False, f"{type(error).__name__}: {error}"))
            print(f"{seed + 1} of {count}", end="\r", file=sys.stderr)
    return found


def _one(seed: int, home: Path, pool: sandbox.Pool) -> Killed:
    log = home / "calls.log"
    child = subprocess.Popen(
        [sys.executable, "-m", killed_processes.__name__, "drive", str(home), str(log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
        while not log.exists() and child.poll() is None:
            time.sleep(0.002)
        time.sleep(random.Random(seed).uniform(0, 0.35))
        child.kill()
        child.wait()
    (run,) = load(home)
    before = past(run)
    made = log.read_text().splitlines()
    if run.ending == "submitted":
        return Killed(seed, True, "", True, len(before.iterations), len(made))
    with TraceWriter(home) as writer:
        driver = killed_processes.driver(writer, log, killed_processes.REPLIES[len(before.iterations) :], pool)
        result = asyncio.run(driver.run(run.inputs(), past=before))
    well = type(result).__name__ == "Submitted" and result.outputs.n == killed_processes.ANSWER
    again = log.read_text().splitlines()[len(made) :]
    return Killed(seed, well, str(result), False, len(before.iterations), len(made), len(set(made) & set(again)))
