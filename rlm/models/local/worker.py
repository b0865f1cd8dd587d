"""The threads that own one model. What is asked waits its turn there; no event loop waits with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


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
