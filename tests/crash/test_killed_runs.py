"""A real run is killed at any moment and taken up again from its trace: it ends as it would have, and pays once."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sandbox
from rlm.results import Submitted
from rlm.traces import TraceWriter, load, recorded_run
from tests.support import killed_processes

pytestmark = pytest.mark.kills


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_run_goes_on_from_its_trace(tmp_path: Path, pool: sandbox.Pool, seed: int) -> None:
    home, log = tmp_path / "home", tmp_path / "calls.log"
    child = subprocess.Popen(
        [sys.executable, "-m", killed_processes.__name__, "drive", str(home), str(log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    while not log.exists() and child.poll() is None:
        time.sleep(0.005)
    time.sleep(random.Random(seed).uniform(0, 0.25))  # only to come at any moment, not to wait for one
    child.kill()
    child.wait()
    child.stdout.close()

    (run,) = load(home)
    before = recorded_run(run)
    answered = {(call.name, call.arguments) for one in before.iterations for call in one.calls}
    made = log.read_text().splitlines()
    with TraceWriter(home) as writer:
        if run.ending != "submitted":
            assert run.ending == "unfinished"
            driver = killed_processes.driver(writer, log, killed_processes.REPLIES[len(before.iterations) :], pool)
            result = asyncio.run(driver.run(run.inputs(), past=before))
            assert isinstance(result, Submitted)
            assert result.outputs.n == killed_processes.ANSWER
    again = log.read_text().splitlines()[len(made) :]
    repeated = {f"[[{call.replace(',', ', ')}], {{}}]" for call in again}
    assert repeated.isdisjoint(arguments for name, arguments in answered if name == "slow")
    steps = {f"{step},{n}" for step in range(killed_processes.STEPS) for n in range(3)}
    assert set(made) | set(again) == steps
