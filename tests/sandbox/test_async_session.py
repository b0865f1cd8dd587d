"""The asynchronous session: the event loop goes on while cells run."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import sandbox
from tests.support.event_loop import turns_of_the_loop


async def test_a_cell_that_sleeps_does_not_stall_the_event_loop(pool):
    async with sandbox.AsyncSession(pool=pool) as session, turns_of_the_loop() as turns:
        result = await session.run("import time\ntime.sleep(0.4)\n'slept'")
    assert result.value_repr == "'slept'"
    assert turns.were_taken()


async def test_many_sessions_run_at_once(pool):
    meeting = asyncio.Barrier(6)

    async def meet(i):
        await meeting.wait()
        return i

    async def one(i):
        async with sandbox.AsyncSession(inputs={"i": i}, functions={"meet": meet}, pool=pool) as session:
            return (await session.run("meet(i) * 10")).value_repr

    assert await asyncio.gather(*(one(i) for i in range(6))) == ["0", "10", "20", "30", "40", "50"]


async def test_asynchronous_host_functions_run_on_the_callers_loop(pool):
    here = asyncio.get_running_loop()
    seen = []

    async def ask():
        seen.append(asyncio.get_running_loop())

    async with sandbox.AsyncSession(functions={"ask": ask}, pool=pool) as session:
        assert (await session.run("ask()")).ok
    assert seen == [here]


async def test_cancelling_the_waiting_task_ends_the_session_and_its_calls(pool):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def forever():
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async with sandbox.AsyncSession(functions={"forever": forever}, pool=pool) as session:
        pid = session.pid
        running = asyncio.create_task(session.run("forever()"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(cancelled.wait(), 10)
        assert not session.alive
    for _ in range(1000):
        if not os.path.exists(f"/proc/{pid}"):
            break
        await asyncio.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")


async def test_variables_and_interrupt(pool):
    started = asyncio.Event()

    async def begin():
        started.set()

    async with sandbox.AsyncSession(functions={"begin": begin}, pool=pool) as session:
        running = asyncio.create_task(session.run("x = 1\nbegin()\nwhile True: pass"))
        await started.wait()
        session.interrupt()
        assert (await running).error.name == "CellStopped"
        assert (await session.variables())["x"].value == 1


async def test_it_must_be_entered():
    with pytest.raises(RuntimeError, match="async with"):
        await sandbox.AsyncSession().run("1")


async def test_an_error_in_opening_is_raised(pool):
    with pytest.raises(sandbox.InputError):
        async with sandbox.AsyncSession(inputs={"a": object()}, pool=pool):
            pass


async def test_a_closed_session_says_so(pool):
    async with sandbox.AsyncSession(pool=pool) as session:
        await session.close()
        for _ in range(2):
            with pytest.raises(sandbox.SessionClosed):
                await asyncio.wait_for(session.run("1"), 10)
        await session.close()


async def test_a_cell_that_is_long_is_sent_and_run_too(pool):
    async with sandbox.AsyncSession(pool=pool) as session:
        result = await session.run(f"text = {'x' * 1_000_000!r}\nlen(text)")
        assert result.value_repr == "1000000"


async def test_a_kernel_that_does_not_read_does_not_stall_the_event_loop(pool):
    async with sandbox.AsyncSession(pool=pool, limits=sandbox.Limits(cell_seconds=0.5)) as session:
        os.kill(session.pid, signal.SIGSTOP)
        async with turns_of_the_loop() as turns:
            result = await session.run(f"text = {'x' * 5_000_000!r}")
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert not result.limit.survived
    assert result.seconds < 2.0
    assert turns.were_taken()


async def test_tasks_that_share_a_session_take_turns(pool):
    async with sandbox.AsyncSession(pool=pool) as session:
        await session.run("seen = []")
        await asyncio.gather(*(session.run(f"seen.append({number})") for number in range(5)))
        assert (await session.run("sorted(seen)")).value_repr == "[0, 1, 2, 3, 4]"


async def test_a_session_opens_without_a_kernel_that_waits():
    with sandbox.Pool(size=0) as pool:
        async with sandbox.AsyncSession(inputs={"n": 2, "rows": [1, 2]}, pool=pool) as session:
            assert (await session.run("n, rows")).value_repr == "(2, [1, 2])"
