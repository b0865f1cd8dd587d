"""The threads that own one model. What is asked waits its turn there; no event loop waits with it."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_LAST_SECONDS = 5.0
_begun: set[int] = set()
"""The threads of all workers, by the system's numbers for them."""


class Worker:
    """Runs functions in threads of its own: one at a time, or as many as the backend can batch."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._here = threading.local()
        self._pool = ThreadPoolExecutor(threads, f"rlm-model-{name}", initializer=self._mark)

    def submit(self, work: Callable[[float], T]) -> Future[T]:
        """Run `work` when its turn comes. It is told how many seconds it waited."""
        asked = time.perf_counter()
        return self._pool.submit(lambda: work(time.perf_counter() - asked))

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns. Asked from one of the worker's own threads, it runs at once."""
        if getattr(self._here, "mine", False):
            return work()
        return self._pool.submit(work).result()

    def close(self) -> None:
        """End the threads once the work in hand is done."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _mark(self) -> None:
        self._here.mine = True
        _begun.add(threading.get_native_id())


@atexit.register
def wait_for_threads() -> None:
    """Until the system has ended these threads; they were joined before.

    MLX frees what it keeps for a thread when the thread ends, and takes Python's lock for it. Joining a thread does not
    wait for that before Python 3.13, and on Linux a thread that wants the lock of an ending interpreter aborts it.
    """
    until = time.monotonic() + _LAST_SECONDS
    for thread in _begun:
        while Path(f"/proc/self/task/{thread}").exists() and time.monotonic() < until:
            time.sleep(0.001)
