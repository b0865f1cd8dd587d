"""What a worker does, in whatever process an engine has put it: it makes a task of an item, and runs it."""

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
from ..executors.base import Setting
from ..item import Item
from ..outcome import Ending, Outcome, lost
from ..task_binding import Binder
from . import messages

_BASES = 64
_KILLED = ("sandbox:SessionClosed", "sandbox:KernelDied", "sandbox:KernelStartError")
"""What breaks a run off when its kernel, or the process that forks kernels, was ended. The last of them, if it happens
to an item twice, is no accident."""

_TELL_S = 1.0

_setting = Setting()
_binder: Binder | None = None
_observe: Observer | None = None
_prepared = False


def prepare(setting: Setting) -> None:
    """Tell this process, once and before its first item, what all items share: pace, cache, where runs are recorded."""
    global _setting, _binder, _observe, _prepared
    if setting.home is not None:
        os.environ["RLM_HOME"] = setting.home
    if setting.traffic is not None:
        from ...models.policy import Traffic, use

        use(Traffic(**setting.traffic))
    _setting, _binder, _observe, _prepared = setting, None, None, True


async def run_item(item: Item, waits: Callable[[], None] = lambda: None) -> Outcome:
    """Run one item to its ending. Many may run at once in one event loop. Raises only what ends this process.

    `waits` is called while it waits for its turn to ask a model: that is no time of the run's, nor of its lease.
    """
    from ...models.rate_limit.limiter import telling_waits

    began = time.monotonic()
    try:
        with telling_waits(_now_and_then(waits)):
            made = await _run(item)
    except Exception as error:  # of a tool's import, or a fault of ours: the other items go on
        made = Outcome(item.key, item.name, "Failed", error=f"{type(error).__name__}: {error}")
    return replace(made, seconds=time.monotonic() - began, worker=worker_name())


async def encoded_outcome(item: Item, waits: Callable[[], None]) -> bytes:
    """What `run_item` returns, as JSON. A result that JSON does not know is a failed item's."""
    outcome = await run_item(item, waits)
    try:
        return messages.encoded(outcome.to_dict())
    except (TypeError, ValueError, RecursionError) as error:
        broken = Outcome(item.key, item.name, "Failed", error=f"its result is not JSON ({error})")
        return messages.encoded(broken.to_dict())


async def _run(item: Item) -> Outcome:
    from sandbox.errors import IsolationUnavailable
    from sandbox.isolation.probe import choose_tier

    from ...repl.session import MAX_REVIVALS
    from ...runner import run_task

    try:
        task = _own_binder().bind(item)
        task = replace(task, source={**(task.source or {}), "batch": _setting.batch, "item": item.name})
        choose_tier(task.isolation)
    except TaskError as error:
        return Outcome(item.key, item.name, "Failed", error="; ".join(str(one) for one in error.problems))
    except IsolationUnavailable as error:
        return lost(item.key, item.name, f"{error} (on {worker_name()})", stop=True)
    result = await run_task(task, observe=_own_observer())
    cause = result.cause if isinstance(result, Failed) else None
    hopeless = cause is not None and cause.hopeless
    _forget_history()
    # Code that kills its own kernel does so again and again; a kernel that was killed from outside is a loss.
    by_itself = isinstance(result, Failed) and f"the kernel died {MAX_REVIVALS + 1} times" in str(result.reason)
    accident = str(cause) in _KILLED and not by_itself and not (item.alone and hopeless)
    if isinstance(result, Failed) and accident:
        said = f"its sandbox on {worker_name()} was lost: {result.reason}"
        return Outcome(item.key, item.name, "Lost", result.to_dict(), said, run_id=result.run_id)
    if isinstance(result, Failed) and hopeless:
        return lost(item.key, item.name, f"{item.name}: {result.reason} (on {worker_name()})", stop=True)
    reason = str(result.reason) if isinstance(result, Failed) else None
    ending: Ending = "Failed"
    if not isinstance(result, Failed):
        ending = "Submitted" if isinstance(result, Submitted) else "Extracted"
    return Outcome(item.key, item.name, ending, result.to_dict(), reason, run_id=result.run_id)


def _now_and_then(tell: Callable[[], None]) -> Callable[[float], None]:
    """The same for as many calls as come: an item may wait with hundreds of questions at once."""
    last = -math.inf

    def told(_: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now > last + _TELL_S:
            last = now
            tell()

    return told


def worker_name() -> str:
    """This process, for people: machine and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _forget_history() -> None:
    """Drop what dspy keeps of the last 10,000 requests for people to look at: nobody can, in a worker."""
    if _prepared:
        from dspy.clients.base_lm import GLOBAL_HISTORY

        GLOBAL_HISTORY.clear()


def _own_binder() -> Binder:
    global _binder
    if _binder is None:
        _binder = Binder(_setting.models, _setting.budget, keep=_BASES)
    return _binder


def _own_observer() -> Observer:
    """What watches the runs: the default writer of this process, unless the batch is not recorded; and telemetry."""
    global _observe
    if _observe is None:
        from ...traces.default_writer import OFF, default_observer

        writer = default_observer() if _setting.trace else ignore
        spans = ignore
        if os.environ.get("RLM_OTEL", "").strip().lower() not in ("", *OFF):
            from ...telemetry import spans as make_spans

            spans = make_spans()
        _observe = fan_out(writer, spans)
    return _observe
