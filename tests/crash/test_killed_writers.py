"""Processes are killed while they write: what they were told is written is there, intact, and says it is unfinished."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlm.traces import TraceWriter, load
from tests.support import killed_processes
from tests.support.events import make_event

pytestmark = pytest.mark.kills


def _child(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", killed_processes.__name__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _check(home: Path, seed: int, acknowledged: int) -> int:
    runs = load(home)
    assert runs.skipped == ()
    if not runs and acknowledged == 0:
        return 0
    run = runs.run(killed_processes.run_id(seed))
    assert run.ending == "unfinished"
    found = killed_processes.check_story(run, seed)
    assert found >= acknowledged
    return found


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_a_random_moment_nothing_that_was_written_is_lost(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    child = _child("write", tmp_path, seed)
    assert child.stdout is not None
    acknowledged = 0
    for _ in range(chance.choice([0, 1, 1, 2, 5, 20])):
        acknowledged = int(child.stdout.readline())
    time.sleep(chance.uniform(0, 0.03))  # only to come at any moment, not to wait for one
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    # The last line may have been cut off by the kill; every whole one counts.
    acknowledged = int(rest[-2]) if len(rest) > 1 else acknowledged
    _check(tmp_path, seed, acknowledged)


@pytest.mark.parametrize("statement", [1, 2, 5, 9, 14, 15, 16, 17, 18, 19, 21, 24, 28, 33, 41, 57, 80, 120, 200])
def test_killed_inside_a_write_a_batch_is_there_whole_or_not_at_all(tmp_path: Path, statement: int) -> None:
    child = _child("write", tmp_path, 1, statement)
    assert child.stdout is not None
    said = child.stdout.read().split()
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    _check(tmp_path, 1, int(said[-1]) if said else 0)


def test_the_next_process_goes_on_in_the_file_of_a_killed_one(tmp_path: Path) -> None:
    child = _child("write", tmp_path, 3)
    assert child.stdout is not None
    acknowledged = int(child.stdout.readline())
    assert load(tmp_path)[0].ending == "running"
    child.kill()
    child.wait()
    child.stdout.close()
    with TraceWriter(tmp_path) as writer:
        writer(make_event("run_started", "f" * 12, {"inputs": {}}))
        writer(make_event("run_ended", "f" * 12, {"ending": "Failed"}))
        assert writer.flush(60)
        assert len(list(writer.folder.glob("*.db"))) == 1
        assert load(tmp_path).run("f" * 12).ending == "failed"
        # Its writer is not the one that lives now.
        assert _check(tmp_path, 3, acknowledged) >= acknowledged


def test_several_processes_write_at_once_while_another_reads(tmp_path: Path) -> None:
    names = "abcdef"
    children = [_child("runs", tmp_path, name, 15) for name in names]
    looks = 0
    while any(child.poll() is None for child in children):
        runs = load(tmp_path)
        assert runs.skipped == ()
        for run in runs[:5]:
            assert [event.sequence for event in run.events()][:1] in ([], [1])
        looks += 1
    ends = []
    for child in children:
        ends.append(child.wait())
        assert child.stdout is not None
        child.stdout.close()
    assert ends == [0] * len(names)
    assert looks > 0
    runs = load(tmp_path)
    assert len(runs) == 90
    for run in runs:
        assert run.ending == "submitted"
        assert run.event_count == len(run.events()) == 22
        assert run.inputs()["doc"] == f"{run.id} " * 1_000
        assert run.resolve(run.events()[20].data)["output"] == f"{run.id} 19 " * 100
    assert 1 <= len({run.file.path for run in runs}) <= len(names)


@pytest.mark.parametrize("room", ["120pages", "300000", "1200000"])
def test_on_a_full_disk_the_process_goes_on_and_the_trace_stays_readable(tmp_path: Path, room: str) -> None:
    child = _child("full", tmp_path, room)
    assert child.stdout is not None
    said = child.stdout.read()
    assert child.wait() == 0
    child.stdout.close()
    times, _, why = said.partition(" ")
    assert times == "1"
    assert "no longer recorded" in why
    (run,) = load(tmp_path)
    assert run.ending == "unfinished"
    assert killed_processes.check_story(run, 1) > 0
