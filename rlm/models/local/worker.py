"""The threads of one model. Requests wait for their turn there, and no event loop waits with them."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_EXIT_TIMEOUT_S = 5.0
_threads: set[int] = set()
"""The native ids of the threads of all workers."""


class Worker:
    """Runs functions in threads of its own: one at a time, or as many as the backend can batch."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(threads, f"rlm-model-{name}", initializer=self._start_thread)

    def submit(self, work: Callable[[float], T]) -> Future[T]:
        """Run `work` when its turn comes, with the seconds that it waited."""
        submitted = time.perf_counter()
        return self._pool.submit(lambda: work(time.perf_counter() - submitted))

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result. In a thread of the worker it runs at once."""
        if getattr(self._local, "mine", False):
            return work()
        return self._pool.submit(work).result()

    def close(self) -> None:
        """End the threads after the work that is running."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_thread(self) -> None:
        self._local.mine = True
        _threads.add(threading.get_native_id())


@atexit.register
def wait_for_threads() -> None:
    """Wait until the system has ended these threads, which were joined before.

    MLX frees the memory of a thread when the thread ends, and takes Python's lock for it. Joining a thread does not
    wait for that before Python 3.13, and on Linux a thread that wants the lock of an ending interpreter aborts it.
    """
    until = time.monotonic() + _EXIT_TIMEOUT_S
    for thread in _threads:
        while Path(f"/proc/self/task/{thread}").exists() and time.monotonic() < until:
            time.sleep(0.001)
