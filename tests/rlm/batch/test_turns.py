"""Who has the turn in a worker, what its driver knows of it, and when outcomes are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from rlm.batch.executors import leases
from rlm.batch.executors.base import QUICK_S, room
from rlm.batch.executors.leases import Held
from rlm.batch.item import Item
from rlm.batch.outcome import Outcome, lost
from rlm.batch.worker import run_item
from rlm.batch.worker.item_runner import Running


def _item(key: str, lease: float = 10.0, *, alone: bool = False) -> Item:
    return Item(key=key, name=key, text="", folder="", lease=lease, alone=alone)


def _outcome(seconds: float) -> Outcome:
    return Outcome("k", "k", "Submitted", seconds=seconds)


@pytest.mark.parametrize(
    ("at_once", "last", "wanted"),
    [
        (8, None, 8),
        (8, _outcome(QUICK_S / 2), 16),
        (1, _outcome(QUICK_S / 2), 5),
        (8, _outcome(QUICK_S), 8),
        (8, lost("k", "k", "its worker died", worker="w", seconds=0.1), 8),
    ],
)
def test_only_quick_items_are_sent_ahead(at_once: int, last: Outcome | None, wanted: int) -> None:
    assert room(at_once, last) == wanted


class _Clock:
    """What `held` takes for the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(leases, "time", made)
    return made


def test_a_lease_runs_from_the_turn_of_its_item(clock: _Clock) -> None:
    items = Held(2)
    for key in "abcd":
        items.give(_item(key))
    clock.now += 9
    assert items.overdue() is None
    assert items.next_deadline() == 1010
    items.take_back("b")  # and so it is the turn of c
    clock.now += 2
    late = items.overdue()
    assert late is not None
    assert late.key == "a"
    items.take_back("a")
    assert items.overdue() is None
    assert items.next_deadline() == 1019
    clock.now += 10
    late = items.overdue()
    assert late is not None
    assert late.key == "c"


def test_a_lease_that_begins_anew_is_counted_from_then(clock: _Clock) -> None:
    items = Held(1)
    items.give(_item("a"))
    clock.now += 11
    items.renew("a", ago=3)
    items.renew("never given")
    assert items.overdue() is None
    assert items.next_deadline() == clock.now - 3 + 10


def test_all_that_a_worker_has_is_lost_with_it() -> None:
    items = Held(1)
    assert not items
    items.give(_item("a"))
    items.give(_item("b", alone=True))
    assert (len(items), items.alone) == (2, True)
    assert [(one.key, one.ending, one.error) for one in items.lose("w", "it went")] == [
        ("a", "Lost", "its worker w was lost: it went"),
        ("b", "Lost", "its worker w was lost: it went"),
    ]


class _Story:
    """Items that end when they are told to, in a real `Running`."""

    def __init__(self, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self.told: list[list[str]] = []
        self._ends: dict[str, asyncio.Event] = {}
        monkeypatch.setattr(run_item, "encoded_outcome", self._run)
        self.running = Running(at_once, self._tell)

    async def _run(self, item: Item, waits: Callable[[], None]) -> bytes:
        self.begun.append(item.key)
        waits()
        await self._ends[item.key].wait()
        return item.key.encode()

    def _tell(self) -> None:
        self.told.append([one.decode() for one in self.running.take()])

    async def start(self, keys: str) -> None:
        for key in keys:
            self._ends[key] = asyncio.Event()
            self.running.start(_item(key))
        await self._settle()

    async def end(self, keys: str) -> None:
        for key in keys:
            self._ends[key].set()
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_items_have_their_turns_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _Story(2, monkeypatch)
    await story.start("abcd")
    assert (story.begun, set(story.running.waited)) == (["a", "b"], {"a", "b"})
    await story.end("b")
    assert (story.begun, set(story.running.waited)) == (["a", "b", "c"], {"a", "c"})
    await story.running.stop()
    assert story.begun == ["a", "b", "c"]


async def test_outcomes_are_told_together_and_at_once_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _Story(2, monkeypatch)
    await story.start("abcd")
    await story.end("a")
    assert story.told == []
    await story.end("b")  # c and d run, and nobody waits for a turn
    assert story.told == [["a", "b"]]
    await story.end("c")
    await story.end("d")
    assert story.told == [["a", "b"], ["c"], ["d"]]


async def test_an_outcome_is_told_after_a_moment_whatever_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _Story(1, monkeypatch)
    await story.start("abc")
    await story.end("a")
    assert story.told == []
    end = time.monotonic() + 30
    while not story.told and time.monotonic() < end:
        await asyncio.sleep(0.01)
    assert story.told == [["a"]]
    await story.running.stop()
