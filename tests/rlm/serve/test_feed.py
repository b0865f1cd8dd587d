"""The feed of a run: readers of any speed, and a size that no run can pass."""

from __future__ import annotations

import asyncio
import json

from rlm.events import CellEnded, CellStarted, ModelAsked
from rlm.redaction import protect
from rlm.serve.feed import Feed


async def read(feed, after=0):
    return [item async for item in feed.follow(after)]


async def test_every_reader_gets_every_event_in_order():
    feed = Feed(asyncio.get_running_loop())
    early = asyncio.create_task(read(feed))
    await asyncio.sleep(0)
    for number in range(50):
        await asyncio.to_thread(feed, CellStarted("r", iteration=number, code="x"))
    late = asyncio.create_task(read(feed, 20))
    feed.end()
    assert [item.number for item in await early] == list(range(1, 51))
    assert [item.number for item in await late] == list(range(21, 51))


async def test_a_slow_reader_is_told_what_it_missed_and_keeps_no_memory():
    feed = Feed(asyncio.get_running_loop(), max_bytes=10_000)
    reader = feed.follow()
    feed.add("first", {})
    assert (await anext(reader)).kind == "first"
    for number in range(1_000):
        feed.add("event", {"number": number, "text": "x" * 100})
        assert feed.size <= 10_000
    feed.end()
    items = [item async for item in reader]
    assert items[0].kind == "skipped"
    missed = json.loads(items[0].data)["events"]
    assert missed + len(items) - 1 == 1_000
    assert json.loads(items[-1].data)["number"] == 999


async def test_a_reader_that_is_overtaken_while_it_reads_is_told_so():
    feed = Feed(asyncio.get_running_loop(), max_bytes=1_000)
    for number in range(10):
        feed.add("event", {"number": number})
    numbers, missed = [], 0
    async for item in feed.follow():
        if item.kind == "skipped":
            missed += json.loads(item.data)["events"]
        else:
            numbers.append(item.number)
        if item.number == 3:
            for number in range(500):
                feed.add("event", {"number": number})
            feed.end()
    assert numbers[-1] == 510
    assert len(numbers) + missed == 510
    assert numbers == sorted(numbers)


async def test_texts_are_short_and_without_secrets():
    protect("hunter2-hunter2")
    feed = Feed(asyncio.get_running_loop())
    feed(CellStarted("r", iteration=1, code="y" * 1_000_000))
    output = "the key is hunter2-hunter2 " + "\ud800" + "x" * 100_000
    feed(CellEnded("r", iteration=1, output=output, success=True, seconds=0.1, error=None, limit=None))
    feed.end()
    code, ended = await read(feed)
    assert len(code.data) < 10_000
    assert len(ended.data) < 5_000
    assert "hunter2" not in ended.data
    ended.data.encode()


async def test_prompts_are_left_to_the_trace():
    feed = Feed(asyncio.get_running_loop())
    turns = [("user", "private")]
    feed(ModelAsked("r", id=1, role="main", model="m", turns=turns, iteration=1, retained=0, system=None, call=None))
    feed.end()
    (item,) = await read(feed)
    assert "private" not in item.data
    assert json.loads(item.data)["model"] == "m"


async def test_quiet_readers_are_kept_awake():
    feed = Feed(asyncio.get_running_loop())
    reader = feed.follow(quiet_seconds=0.01)
    assert await anext(reader) is None
    feed.add("event", {})
    item = await anext(reader)
    while item is None:
        item = await anext(reader)
    assert item.kind == "event"
