"""When the items of a worker start, and when their outcomes are reported."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from rlm.batch.item import Item
from rlm.batch.worker import run_item
from rlm.batch.worker.item_runner import ItemRunner


def _item(key: str) -> Item:
    return Item(key=key, name=key, text="", folder="")


class _Items:
    """Items that end on request, in a real `ItemRunner`."""

    def __init__(self, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.outcomes: list[list[str]] = []
        self._ends: dict[str, asyncio.Event] = {}
        monkeypatch.setattr(run_item, "run_encoded", self._run)
        self.runner = ItemRunner(at_once, self._notify)

    async def _run(self, item: Item, on_rate_limit: Callable[[], None]) -> bytes:
        self.started.append(item.key)
        on_rate_limit()
        await self._ends[item.key].wait()
        return item.key.encode()

    def _notify(self) -> None:
        self.outcomes.append([one.decode() for one in self.runner.take_outcomes()])

    async def start(self, keys: str) -> None:
        for key in keys:
            self._ends[key] = asyncio.Event()
            self.runner.start(_item(key))
        await self._settle()

    async def end(self, keys: str) -> None:
        for key in keys:
            self._ends[key].set()
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_items_have_their_turns_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _Items(2, monkeypatch)
    await story.start("abcd")
    assert (story.started, set(story.runner.rate_limited)) == (["a", "b"], {"a", "b"})
    await story.end("b")
    assert (story.started, set(story.runner.rate_limited)) == (["a", "b", "c"], {"a", "c"})
    await story.runner.stop()
    assert story.started == ["a", "b", "c"]


async def test_outcomes_are_collected_and_at_once_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _Items(2, monkeypatch)
    await story.start("abcd")
    await story.end("a")
    assert story.outcomes == []
    await story.end("b")  # c and d run, and nobody waits for a turn
    assert story.outcomes == [["a", "b"]]
    await story.end("c")
    await story.end("d")
    assert story.outcomes == [["a", "b"], ["c"], ["d"]]


async def test_an_outcome_is_reported_after_a_moment_whatever_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    story = _Items(1, monkeypatch)
    await story.start("abc")
    await story.end("a")
    assert story.outcomes == []
    end = time.monotonic() + 30
    while not story.outcomes and time.monotonic() < end:
        await asyncio.sleep(0.01)
    assert story.outcomes == [["a"]]
    await story.runner.stop()
