"""Runs under load: a thousand calls to a model from one cell, and hundreds of runs at once."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import processes
import transports
from loops.ours import reply

_BATCH = """
import time
began = time.perf_counter()
answers = {call}
SUBMIT(seconds=time.perf_counter() - began, good=sum([answer == "ok" for answer in answers]))
"""


def _check_good(good: int, count: int) -> None:
    if good != count:
        raise RuntimeError(f"{count - good} of {count} calls failed")


def _local_lm(port: int) -> Any:
    import dspy

    return dspy.LM("openai/local", api_base=f"http://127.0.0.1:{port}/v1", api_key="none", cache=False)


def batch(kind: Any, port: int, count: int, parallel: int, transport: str = "own") -> dict[str, Any]:
    """`llm_batch` in a real run, timed by the cell that calls it; and the processor time of this process."""
    import dspy

    import rlm
    from rlm.models.scripted import scripted_lm

    call = f'llm_batch([f"What is {{i}}?" for i in range({count})], max_parallel={parallel})'
    predict = rlm.Predict(
        "question: str -> seconds: float, good: int",
        sub_lm=_local_lm(port),
        trigger=rlm.FallbackTrigger(max_llm_calls=2 * count),
        pool=kind.pool,
    )
    kind.settle()
    cpu = time.process_time()
    model = scripted_lm([reply(_BATCH.format(call=call))])
    with processes.apart(), transports.carrying(transport), dspy.context(lm=model):
        result = predict.run_with_fallback(question="How long does it take?")
    _check_good(result.outputs.good, count)
    return {"seconds": result.outputs.seconds, "cpu": time.process_time() - cpu}


def dspy_batch(kind: Any, port: int, count: int, parallel: int) -> dict[str, Any]:
    """The same with dspy.RLM's `llm_query_batched`, which sends eight at a time and cannot be told otherwise."""
    import dspy

    call = f'llm_query_batched([f"What is {{i}}?" for i in range({count})])'
    cell = _BATCH.format(call=call)
    texts = [f"[[ ## reasoning ## ]]\nGo.\n\n[[ ## code ## ]]\n```python\n{cell}\n```\n\n[[ ## completed ## ]]"]
    from loops.dspy_rlm import Engine

    main = dspy.LM("scripted/main", engine=Engine(texts), cache=False, num_retries=0)
    rlm = dspy.RLM(
        "question: str -> seconds: float, good: int",
        max_llm_calls=2 * count,
        sub_lm=_local_lm(port),
        interpreter_factory=kind.interpreter(),
    )
    cpu = time.process_time()
    with processes.apart(), dspy.context(lm=main):
        result = rlm(question="How long does it take?")
    _check_good(result.good, count)
    return {"seconds": result.seconds, "cpu": time.process_time() - cpu}


def bare_batch(kind: Any, port: int, count: int, parallel: int, transport: str = "streams") -> dict[str, Any]:
    """The same requests over a transport alone: without a model library, a run or a record."""
    with processes.apart():
        return asyncio.run(_bare_batch(transports.TRANSPORTS[transport], port, count, parallel))


async def _bare_batch(kind: type[transports.Transport], port: int, count: int, parallel: int) -> dict[str, Any]:
    headers = [("Content-Type", "application/json"), ("Authorization", "Bearer none")]
    transport = kind(f"http://127.0.0.1:{port}/v1/chat/completions", headers)
    gate = asyncio.Semaphore(parallel)

    async def one(number: int) -> None:
        async with gate:
            message = {"role": "user", "content": f"What is {number}?"}
            response = await transport.post(json.dumps({"model": "local", "messages": [message]}).encode())
            json.loads(response.body)

    cpu, before = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(count)))
    seconds, cpu = time.perf_counter() - before, time.process_time() - cpu
    await transport.close()
    return {"seconds": seconds, "cpu": cpu}


class Gate:
    """Answers `llm_query` when so many have asked: all their runs, and all their kernels, are alive at that moment."""

    def __init__(self, count: int, look: Callable[[], None]) -> None:
        self.count, self.look = count, look
        self.waiting = 0
        self.open: asyncio.Event | None = None

    async def complete(self, request: Any) -> Any:
        from dspy.lm15 import Message, Response, Usage

        self.open = self.open or asyncio.Event()
        self.waiting += 1
        if self.waiting == self.count:
            await asyncio.to_thread(self.look)
            self.open.set()
        await asyncio.wait_for(self.open.wait(), 60)
        return Response(None, request.model, Message.assistant("42"), "stop", Usage(input_tokens=1, output_tokens=1))


_AT_ONCE = ('found = int(llm_query("What is six times seven?"))\nprint(found)', "SUBMIT(answer=found)")


def at_once(kind: Any, count: int, held: bool) -> dict[str, Any]:
    """`count` runs of two iterations and one `llm_query`, in one event loop; `held` looks while all are alive."""
    import dspy

    import rlm
    from rlm.models.scripted import scripted_lm

    seen: dict[str, Any] = {}

    def look() -> None:
        kernels = processes.with_descendants([os.getpid()]) - {os.getpid()}
        seen["processes"] = len(kernels)
        seen["kernels_pss"] = sum(_pss(pid) for pid in kernels)
        seen["host_pss"] = processes.pss(os.getpid())
        seen["descriptors"] = len(os.listdir("/proc/self/fd"))
        seen["threads"] = threading.active_count()

    if held:
        engine = type("Engine", (), {"complete": lambda self, request: None})()
        sub = dspy.LM("scripted/sub", engine=engine, async_engine=Gate(count, look), cache=False, num_retries=0)
    else:
        sub = scripted_lm({"*": "42"})
    # By what a prompt contains: the runs share one model, as they would outside.
    main = scripted_lm({"Output:": reply(_AT_ONCE[1]), "*": reply(_AT_ONCE[0])})
    predict = rlm.Predict("doc: str -> answer: int", sub_lm=sub, pool=kind.pool)

    async def all_of_them() -> list[Any]:
        with dspy.context(lm=main):
            return await asyncio.gather(*(predict.arun_with_fallback(doc=f"number {n}") for n in range(count)))

    kind.settle()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = time.perf_counter()
    results = asyncio.run(all_of_them())
    seconds = time.perf_counter() - before
    endings: dict[str, int] = {}
    for result in results:
        good = type(result).__name__ == "Submitted" and result.outputs.answer == 42
        ending = "Submitted" if good else f"{type(result).__name__}: {getattr(result, 'reason', '')}"[:200]
        endings[ending] = endings.get(ending, 0) + 1
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"seconds": seconds, "endings": endings, "peak_rss": peak, "descriptor_limit": soft, **seen}


def _pss(pid: int) -> int:
    try:
        return processes.pss(pid)
    except OSError:
        return 0  # it has just ended


LOADS: dict[str, Callable[..., dict[str, Any]]] = {
    "batch": batch,
    "dspy_batch": dspy_batch,
    "bare_batch": bare_batch,
    "at_once": at_once,
}
