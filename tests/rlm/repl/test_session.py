"""The session of a run opens while the model is asked; whatever comes of it, nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from rlm.results import Failed, Submitted
from sandbox import KernelStartError


class SlowPool:
    """The tests' pool, where a kernel is not to be had before `may_go` is set."""

    def __init__(self, pool):
        self.pool = pool
        self.asked, self.may_go = threading.Event(), threading.Event()
        self.kernels = []

    def take_waiting(self, isolation, limits):
        return None

    def take(self, isolation, limits):
        self.asked.set()
        if not self.may_go.wait(20):
            raise KernelStartError("nobody was asked meanwhile")
        self.kernels.append(self.pool.take(isolation, limits))
        return self.kernels[-1]


class BrokenPool(SlowPool):
    def take(self, isolation, limits):
        raise KernelStartError("there are no kernels today")


@pytest.fixture
def slow_pool(pool):
    return SlowPool(pool)


async def test_the_model_is_asked_while_the_session_opens(make, slow_pool):
    made = make(["SUBMIT(answer=len(doc))"])

    def observe(event):
        if event.kind == "model_answered":
            slow_pool.may_go.set()

    made.driver = replace(made.driver, pool=slow_pool, observe=observe)
    result = await made.run(doc="four")
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == 4


async def test_a_run_that_is_cancelled_while_its_session_opens_leaves_no_kernel(make, slow_pool):
    made = make(["SUBMIT(answer=1)"])
    made.driver = replace(made.driver, pool=slow_pool)
    running = asyncio.ensure_future(made.run(doc="x"))
    await asyncio.to_thread(slow_pool.asked.wait, 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    slow_pool.may_go.set()
    for _ in range(1000):
        if slow_pool.kernels and not slow_pool.kernels[0].process.alive:
            break
        await asyncio.sleep(0.01)
    assert slow_pool.kernels
    assert not slow_pool.kernels[0].process.alive


async def test_a_session_that_cannot_be_opened_fails_the_run_in_its_words(make, pool):
    made = make(["SUBMIT(answer=1)"])
    made.driver = replace(made.driver, pool=BrokenPool(pool))
    result = await made.run(doc="x")
    assert isinstance(result, Failed), result
    assert "there are no kernels today" in result.reason
