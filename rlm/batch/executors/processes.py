"""The local engine: worker processes on this machine, each with an event loop that runs several items at once."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..item import Item
from ..outcome import Outcome
from .base import EngineError, Setting, room
from .worker_process import WorkerProcess

AT_ONCE = 4
_STILLBORN = 3
_PATIENCE_S = 20.0
_LONGEST_WAIT_S = 3600.0


class LocalEngine:
    """Runs items in processes of this machine. See `Engine`."""

    def __init__(
        self,
        setting: Setting | None = None,
        *,
        workers: int | None = None,
        at_once: int = AT_ONCE,
        log: Path | None = None,
    ) -> None:
        """`workers` processes (as many as processors, unless told), each with `at_once` items at a time.

        What the processes print goes to `log`.
        """
        self._setting = setting or Setting()
        self._size = workers or processors()
        self._at_once = self._room = at_once
        self._log = log
        self._workers: list[WorkerProcess] = []
        self._selector = selectors.PollSelector()  # which holds no descriptor of its own
        self._stillborn = 0
        """Processes in a row that ended before they could take an item."""

    @property
    def pids(self) -> list[int]:
        """The worker processes that live."""
        return [one.process.pid for one in self._workers]

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        """Run the items, and yield what becomes of each, as they come."""
        source, ended = iter(items), False
        waiting: Item | None = None
        while True:
            while not ended:
                if waiting is None:
                    if self._workers and not self._has_room():
                        break
                    waiting = next(source, None)
                    ended = waiting is None
                elif (worker := self._room_for(waiting)) is not None:
                    worker.give(waiting)
                    waiting = None
                else:
                    break
            if ended and not any(one.items for one in self._workers):
                return
            self._keep_size()
            yield from self._wait()

    def close(self) -> None:
        """End the workers. What they are running is left unfinished."""
        for one in self._workers:
            self._selector.unregister(one.socket)
            one.hang_up()
        end = time.monotonic() + _PATIENCE_S
        for one in self._workers:
            one.close(end - time.monotonic())
        self._workers.clear()

    def _has_room(self) -> bool:
        return any(self._takes(one) for one in self._workers)

    def _takes(self, worker: WorkerProcess) -> bool:
        return worker.ready and not worker.items.alone and len(worker.items) < self._room

    def _room_for(self, item: Item) -> WorkerProcess | None:
        """The worker that has the least to do, if it can take the item."""
        free = [one for one in self._workers if self._takes(one) and not (item.alone and one.items)]
        return min(free, key=lambda one: len(one.items), default=None)

    def _keep_size(self) -> None:
        while len(self._workers) < self._size:
            try:
                if self._log is not None:
                    self._log.parent.mkdir(parents=True, exist_ok=True)
                worker = WorkerProcess(self._setting, self._at_once, self._log)
            except OSError as error:
                raise EngineError(f"a worker process cannot be started ({error})") from error
            self._workers.append(worker)
            self._selector.register(worker.socket, selectors.EVENT_READ, worker)

    def _wait(self) -> Iterator[Outcome]:
        """Wait until something comes from the workers, and tell what it was."""
        for one in self._workers:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.wants_to_write else 0)
            self._selector.modify(one.socket, events, one)
        for key, events in self._selector.select(self._longest_wait()):
            worker: WorkerProcess = key.data
            if events & selectors.EVENT_WRITE:
                worker.write()
            if events & selectors.EVENT_READ:
                yield from self._hear(worker)
        for worker in list(self._workers):
            item = worker.items.overdue()
            if item is not None:
                yield from self._bury(worker, f"{item.name} was not done after {item.lease:,.0f} seconds; ")

    def _longest_wait(self) -> float:
        deadlines = [one.items.next_deadline() for one in self._workers]
        first = min((one for one in deadlines if one is not None), default=None)
        # Rounded up: a moment before the end of a lease there is nothing to do yet.
        return _LONGEST_WAIT_S if first is None else max(0.0, first - time.monotonic()) + 0.01

    def _hear(self, worker: WorkerProcess) -> Iterator[Outcome]:
        try:
            for message in worker.read():
                if "ready" in message:
                    worker.ready, self._stillborn = True, 0
                    continue
                if "waits" in message:
                    worker.items.renew(message["waits"])
                    continue
                outcome = Outcome.from_dict(message["outcome"])
                worker.items.take_back(outcome.key)
                self._room = room(self._at_once, outcome)
                yield outcome
        except ConnectionError:
            yield from self._bury(worker, "")

    def _bury(self, worker: WorkerProcess, why: str) -> Iterator[Outcome]:
        """Take away a worker that is dead or stuck; what it had is lost."""
        self._selector.unregister(worker.socket)
        self._workers.remove(worker)
        how = worker.kill(stuck=bool(why))
        if not worker.ready:
            self._stillborn += 1
            if self._stillborn >= _STILLBORN:
                where = f"; what it said is in {self._log}" if self._log is not None else ""
                raise EngineError(f"worker processes do not start: {how}{where}")
        yield from worker.items.lose(worker.name, f"{why}{how}")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
