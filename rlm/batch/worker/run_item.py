"""Running one item in a worker: bind it to its task, run the task, and describe the ending as an `Outcome`."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from ...events import Observer, fan_out, ignore
from ...results import Failed, Submitted
from ...tasks import TaskError
from ..executors.base import WorkerConfig
from ..item import Ending, Item, Outcome, lost
from ..task_binding import TaskBinder
from . import messages

_TEMPLATES = 64
_SANDBOX_CAUSES = ("sandbox:SessionClosed", "sandbox:KernelDied", "sandbox:KernelStartError")
"""Causes of a failed run whose kernel, or the process that forks kernels, was killed. If kernels cannot be started for
the second time, that is no accident."""

_REPORT_INTERVAL_S = 1.0

_config = WorkerConfig()
_binder: TaskBinder | None = None
_observer: Observer | None = None
_prepared = False


def prepare(config: WorkerConfig) -> None:
    """Configure this process before its first item: rate limits, response cache, and where runs are recorded."""
    global _config, _binder, _observer, _prepared
    if config.home is not None:
        os.environ["RLM_HOME"] = config.home
    if config.traffic is not None:
        from ...models.policy import RequestPolicy, use

        use(RequestPolicy(**config.traffic))
    _config, _binder, _observer, _prepared = config, None, None, True


async def run_item(item: Item, on_rate_limit: Callable[[], None] = lambda: None) -> Outcome:
    """Run one item to its ending. Any number may run in one event loop. No `Exception` leaves this function.

    `on_rate_limit` is called while the item waits for a rate limit, which counts neither as time of its run nor of
    its lease.
    """
    from ...models.requests import on_wait

    start = time.monotonic()
    try:
        with on_wait(_throttled(on_rate_limit)):
            outcome = await _run(item)
    except Exception as error:  # such as an error when a tool is imported: the other items go on
        outcome = Outcome(item.key, item.name, "Failed", error=f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=time.monotonic() - start, worker=worker_name())


async def run_encoded(item: Item, on_rate_limit: Callable[[], None]) -> bytes:
    """Run one item and return its outcome as JSON. An item whose result is not JSON has failed."""
    outcome = await run_item(item, on_rate_limit)
    try:
        return messages.encode(outcome.to_dict())
    except (TypeError, ValueError, RecursionError) as error:
        failed = Outcome(item.key, item.name, "Failed", error=f"its result is not JSON ({error})")
        return messages.encode(failed.to_dict())


def flush_traces() -> None:
    """Write all recorded events of this process to disk."""
    from ...traces.writer import flush_writers

    flush_writers()


def worker_name() -> str:
    """Return the name of this process: machine and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def _run(item: Item) -> Outcome:
    from sandbox.errors import IsolationUnavailable
    from sandbox.isolation.probe import choose_tier

    from ...repl.session import MAX_REVIVALS
    from ...runner import arun_task

    try:
        task = _own_binder().bind(item)
        task = replace(task, source={**(task.source or {}), "batch": _config.batch, "item": item.name})
        choose_tier(task.isolation)
    except TaskError as error:
        return Outcome(item.key, item.name, "Failed", error="; ".join(str(problem) for problem in error.problems))
    except IsolationUnavailable as error:
        return lost(item.key, item.name, f"{error} (on {worker_name()})", fatal=True)
    result = await arun_task(task, observe=_own_observer())
    _clear_dspy_history()
    if not isinstance(result, Failed):
        ending: Ending = "Submitted" if isinstance(result, Submitted) else "Extracted"
        return Outcome(item.key, item.name, ending, result.to_dict(), run_id=result.run_id)
    # Code that kills its own kernel does so again and again; a kernel that was killed from outside is an accident.
    killed_itself = f"the kernel died {MAX_REVIVALS + 1} times" in str(result.reason)
    hopeless = result.cause is not None and result.cause.hopeless
    accident = str(result.cause) in _SANDBOX_CAUSES and not killed_itself and not (item.exclusive and hopeless)
    if accident:
        message = f"its sandbox on {worker_name()} was lost: {result.reason}"
        return Outcome(item.key, item.name, "Lost", result.to_dict(), message, run_id=result.run_id)
    if hopeless:
        return lost(item.key, item.name, f"{item.name}: {result.reason} (on {worker_name()})", fatal=True)
    return Outcome(item.key, item.name, "Failed", result.to_dict(), str(result.reason), run_id=result.run_id)


def _throttled(report: Callable[[], None]) -> Callable[[object], None]:
    """Return a callback that calls `report` at most once a second: an item may wait with hundreds of model calls."""
    last = -math.inf

    def throttled(_: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now > last + _REPORT_INTERVAL_S:
            last = now
            report()

    return throttled


def _clear_dspy_history() -> None:
    """Clear the last 10,000 requests that dspy keeps for inspection, which nobody can inspect in a worker."""
    if _prepared:
        from ...dspy_bridge import clear_global_history

        clear_global_history()


def _own_binder() -> TaskBinder:
    global _binder
    if _binder is None:
        _binder = TaskBinder(_config.models, _config.budget, size=_TEMPLATES)
    return _binder


def _own_observer() -> Observer:
    """Return the observer of all runs: this process's trace writer, unless runs are not recorded, and telemetry."""
    global _observer
    if _observer is None:
        from ...traces.writer import OFF, default_observer

        writer = default_observer() if _config.trace else ignore
        spans = ignore
        if os.environ.get("RLM_OTEL", "").strip().lower() not in ("", *OFF):
            from ...telemetry import spans as make_spans

            spans = make_spans()
        _observer = fan_out(writer, spans)
    return _observer
