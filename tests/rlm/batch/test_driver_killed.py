"""Drivers are killed at any moment, many times over: the batch ends with one line for each item."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import batches

pytestmark = pytest.mark.kills

ROWS = 200

# Forked from a process that has imported everything: what is killed here is many drivers, not many imports.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["rlm.batch.driver", "rlm.repl.tools"])


def _start(target: Any, *arguments: Any) -> Any:
    child = _processes.Process(target=target, args=arguments)
    child.start()
    return child


def _end(child: Any) -> int | None:
    child.join()
    code = child.exitcode
    child.close()
    return code


def _wait_for_lines(path: Path, count: int, child: Any) -> None:
    while child.is_alive() and (not path.exists() or path.read_bytes().count(b"\n") < count):
        time.sleep(0.002)


def test_killed_at_random_moments_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    chance, folder, said = random.Random(7), batches.write_folder(tmp_path, ROWS), tmp_path / "said"
    kills = 0
    for _ in range(25):
        child = _start(batches.drive_to_be_killed, folder, said)
        _wait_for_lines(
            said, chance.choice([0, 0, 1]) + (said.read_bytes().count(b"\n") if said.exists() else 0), child
        )
        time.sleep(chance.uniform(0, 0.02))  # only to come at any moment, not to wait for one
        child.kill()
        kills += _end(child) == -signal.SIGKILL
    assert kills >= 10
    # What a killed driver said was done is done, and was said once.
    logged = [line for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]
    assert len(logged) == len(set(logged))
    before = {one["item"] for one in batches.lines(folder)}
    assert {one.rstrip("\n") for one in logged} <= before
    executor = batches.InlineExecutor()
    batches.drive(folder, executor)
    assert len(executor.taken) <= ROWS - len(before)
    batches.check_complete(folder, ROWS)


@pytest.mark.parametrize("seed", range(4))
def test_killed_inside_the_ledger_at_any_statement(tmp_path: Path, seed: int) -> None:
    chance, folder = random.Random(seed), batches.write_folder(tmp_path, 30)
    killed = 0
    for _ in range(10):
        child = _start(batches.drive_to_be_killed, folder, tmp_path / "said", chance.randint(1, 110))
        killed += _end(child) == -signal.SIGKILL
    assert killed >= 5
    batches.drive(folder, batches.InlineExecutor())
    batches.check_complete(folder, 30)


def test_killed_between_the_ledger_and_the_line_the_line_comes_later(tmp_path: Path) -> None:
    """The line is torn anywhere, as by a kill in the middle of a write: what the ledger has is written again."""
    folder = batches.write_folder(tmp_path, 5)
    batches.drive(folder, batches.InlineExecutor())
    results = folder / "results.jsonl"
    whole = results.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    for cut in (1, 2, last // 2, last - 1, last, last + 1, last + 40, len(whole) - 1, len(whole)):
        results.write_bytes(whole[: len(whole) - cut])
        executor = batches.InlineExecutor()
        batches.drive(folder, executor)
        assert executor.taken == []
        batches.check_complete(folder, 5)


@pytest.mark.parametrize("statement", range(14, 40, 3))
def test_killed_while_failed_items_are_made_ready_to_be_done_again(tmp_path: Path, statement: int) -> None:
    folder = batches.write_folder(tmp_path, 6)
    batches.drive(folder, batches.InlineExecutor(batches.failed))
    child = _start(batches.drive_to_be_killed, folder, tmp_path / "said", statement, True)
    assert _end(child) == -signal.SIGKILL
    batches.drive(folder, batches.InlineExecutor(), retry_failed=True)
    batches.check_complete(folder, 6)


@pytest.mark.parametrize("room", [20_000, 40_000, 70_000])
def test_where_there_is_no_more_room_it_stops_and_what_was_done_is_kept(tmp_path: Path, room: int) -> None:
    folder, said = batches.write_folder(tmp_path, ROWS), tmp_path / "said"
    assert _end(_start(batches.drive_without_space, folder, said, room)) == 0
    assert said.read_text().startswith("DiskFull: the ")
    assert "cannot be written" in said.read_text()
    kept = len(batches.lines(folder)) if (folder / "results.jsonl").exists() else 0
    executor = batches.InlineExecutor()
    batches.drive(folder, executor)
    assert len(executor.taken) <= ROWS - kept
    batches.check_complete(folder, ROWS)


def test_a_second_driver_is_told_that_the_first_has_the_batch(tmp_path: Path) -> None:
    from rlm.batch.errors import BatchInUse
    from rlm.batch.ledger import Ledger

    folder, said = batches.write_folder(tmp_path, 20 * ROWS), tmp_path / "said"
    child = _start(batches.drive_to_be_killed, folder, said)
    _wait_for_lines(said, 1, child)
    with pytest.raises(BatchInUse, match=f"process {child.pid} is running this batch"):
        Ledger(folder / "ledger.db")
    child.kill()
    _end(child)
    Ledger(folder / "ledger.db").close()
