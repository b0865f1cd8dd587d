"""The actor class of the Ray executor, used as a plain object: the order of calls, and its traces."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlm.batch.executors.base import WorkerConfig
from rlm.batch.executors.ray_actors import ItemActor
from rlm.batch.item import Item
from rlm.batch.worker import messages, run_item
from tests.support import batches


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the items that an actor has started; each ends immediately."""
    keys: list[str] = []

    async def run(item: Item, on_rate_limit: Callable[[], None]) -> bytes:
        keys.append(item.key)
        return messages.encode({"key": item.key})

    monkeypatch.setattr(run_item, "run_encoded", run)
    return keys


def _request(number: int, *keys: str) -> bytes:
    items = [Item(key=key, name=key, text="", folder="").to_dict() for key in keys]
    return messages.encode({"number": number, "items": items})


def _outcomes(response: bytes) -> list[str]:
    return [outcome["key"] for outcome in messages.unpack(response)["outcomes"]]


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def _actor() -> ItemActor:
    return ItemActor(messages.encode(WorkerConfig().to_dict()), 1, None)


async def test_calls_that_arrive_out_of_order_start_their_items_in_the_order_of_their_numbers(
    started: list[str],
) -> None:
    actor = _actor()
    second = asyncio.create_task(actor.exchange(_request(1, "b", "c")))
    await _settle()
    assert started == []  # the first call was sent earlier, so its items come first
    assert _outcomes(await actor.exchange(_request(0, "a"))) == []
    assert _outcomes(await second) == ["a", "b", "c"]
    assert started == ["a", "b", "c"]


async def test_a_later_call_ends_the_one_that_waits(started: list[str]) -> None:
    actor = _actor()
    first = asyncio.create_task(actor.exchange(_request(0)))
    await _settle()
    second = asyncio.create_task(actor.exchange(_request(1)))
    assert _outcomes(await first) == []
    third = asyncio.create_task(actor.exchange(_request(2, "a")))
    assert _outcomes(await second) == []
    assert _outcomes(await third) == ["a"]


STOPPED = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path

from rlm.batch.executors.base import WorkerConfig
from rlm.batch.executors.ray_actors import ItemActor
from rlm.batch.worker import messages
from tests.support import batches

folder = Path(sys.argv[1])

async def run():
    actor = ItemActor(messages.encode(WorkerConfig(home=str(folder / "home")).to_dict()), 2, None)
    items = [replace(item, key=item.name).to_dict() for item in batches.source_of(folder).read()]
    answer = messages.unpack(await actor.exchange(messages.encode({"number": 0, "items": items})))
    await actor.stop()
    print(*[outcome["run_id"] for outcome in answer["outcomes"]], flush=True)
    os._exit(0)  # an actor is killed once it has stopped

asyncio.run(run())
"""


@pytest.mark.processes
def test_an_actor_that_is_stopped_has_written_the_traces_of_all_its_items(tmp_path: Path) -> None:
    from rlm.traces import load

    folder = batches.write_folder(tmp_path, 2)
    (folder / "home").mkdir()
    command = [sys.executable, "-c", STOPPED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    ids = set(done.stdout.split())
    assert ids
    assert ids <= {run.id for run in load(folder / "home") if run.ending == "submitted"}
