"""The scheduler that all executors share: which worker gets which item, leases, and the replacement of workers.

An executor is a subclass that can start a worker, receive messages from its workers and end them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeAlias, TypeVar

from ..errors import ExecutorError
from ..item import Item, Outcome, lost

QUICK_S = 1.0
MAX_FAILED_STARTS = 3
START_TIMEOUT_S = 300.0
_MIN_PREFETCH = 4
_MAX_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has started and takes items."""


@dataclass(frozen=True, slots=True)
class RateLimited:
    """An item is waiting for the rate limit of a model: its lease starts anew."""

    key: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A worker has ended."""

    reason: str


Message: TypeAlias = Ready | RateLimited | Outcome | Exited


def capacity(at_once: int, last: Outcome | None) -> int:
    """Return how many items to send to a worker that runs `at_once` of them, given the `last` outcome received.

    Quick items are sent ahead, so that no worker waits for its driver and several items share a message. Slow ones are
    not: an item that waits at one worker could be running at another.
    """
    quick = last is not None and last.ending != "Lost" and last.seconds < QUICK_S
    return at_once + max(at_once, _MIN_PREFETCH) if quick else at_once


class LeasedItems:
    """The items that one worker has, in the order in which they were sent, and the start of each lease.

    A worker starts its items in this order, `at_once` at a time (see `ItemRunner`), so the scheduler knows which of
    them are running. The lease of an item that waits for its turn has not started.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._items: dict[str, tuple[Item, float]] = {}

    def __len__(self) -> int:
        return len(self._items)

    @property
    def exclusive(self) -> bool:
        """Whether one of the items needs its worker for itself."""
        return any(item.exclusive for item, _ in self._items.values())

    def add(self, item: Item) -> None:
        """Add an item that was sent to the worker."""
        self._items[item.key] = (item, time.monotonic())

    def remove(self, key: str) -> None:
        """Remove an item that has ended; the lease of the first one that waits starts."""
        if self._items.pop(key, None) is not None:
            for item, _ in islice(self._items.values(), self._at_once - 1, self._at_once):
                self.renew(item.key)

    def renew(self, key: str, ago: float = 0.0) -> None:
        """Start the lease of an item anew, as of some seconds ago."""
        if key in self._items:
            self._items[key] = (self._items[key][0], time.monotonic() - ago)

    def overdue(self) -> Item | None:
        """Return an item whose lease has ended."""
        now = time.monotonic()
        return next((item for item, start in self._running() if now > start + item.lease), None)

    def next_deadline(self) -> float | None:
        """Return the time at which the first lease ends."""
        return min((start + item.lease for item, start in self._running()), default=None)

    def lose(self, worker: str, reason: str) -> Iterator[Outcome]:
        """Yield an outcome for each item: lost with its worker."""
        now = time.monotonic()
        for item, start in self._items.values():
            error = f"its worker {worker} was lost: {reason}"
            yield lost(item.key, item.name, error, worker=worker, seconds=now - start)

    def _running(self) -> Iterator[tuple[Item, float]]:
        return islice(self._items.values(), self._at_once)


class Worker(Protocol):
    """One worker as the scheduler sees it."""

    name: str
    ready: bool
    started: float
    """When it was started, by `time.monotonic`."""

    items: LeasedItems

    def send(self, item: Item) -> None:
        """Send an item, now or when messages are received the next time."""


W = TypeVar("W", bound=Worker)


class Scheduler(ABC, Generic[W]):
    """An `Executor` without its workers. See there for what it guarantees."""

    def __init__(self, size: int, at_once: int) -> None:
        """Keep `size` workers that run `at_once` items each."""
        self.size = size
        self.workers: list[W] = []
        self._at_once = self._capacity = at_once
        self._failed_starts = 0
        """Workers in a row that ended before they could take an item."""

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        """Run the items, and yield the outcome of each as it ends. Raises `ExecutorError`."""
        self._discard_abandoned()
        self._capacity = self._at_once  # nothing is known yet about how long these items take
        source, exhausted = iter(items), False
        pending: Item | None = None
        while True:
            while not exhausted:
                if pending is None:
                    if self.workers and not any(map(self._has_room, self.workers)):
                        break
                    pending = next(source, None)
                    exhausted = pending is None
                elif (worker := self._worker_for(pending)) is not None:
                    worker.items.add(pending)
                    worker.send(pending)
                    pending = None
                else:
                    break
            if exhausted and not any(worker.items for worker in self.workers):
                return
            while len(self.workers) < self.size:
                self.workers.append(self._start())
            yield from self._receive_all()

    def close(self) -> None:
        """Stop the workers. Items that are running are abandoned."""
        workers, self.workers = self.workers, []
        self._stop(workers)

    @abstractmethod
    def _start(self) -> W:
        """Start a worker. Raises `ExecutorError`."""

    @abstractmethod
    def _receive(self, timeout: float) -> Iterator[tuple[W, Message]]:
        """Wait for messages, at most so many seconds, and yield them with their senders."""

    @abstractmethod
    def _kill(self, worker: W) -> None:
        """End a worker at once, if it has not ended."""

    @abstractmethod
    def _stop(self, workers: Sequence[W]) -> None:
        """Have workers abandon their items, write their traces and end; kill those that do not."""

    @abstractmethod
    def _start_error(self, reason: str | None) -> ExecutorError:
        """Return the error for workers that do not start, or (without a reason) take too long to."""

    def _rate_limited_since(self, worker: W, item: Item) -> float | None:
        """Return how many seconds ago a running item was last waiting for a rate limit, if a worker must be asked."""
        return None

    def _discard_abandoned(self) -> None:
        """Stop the workers that still run items of an earlier call of `run`, one that was not read to its end."""
        abandoned = [worker for worker in self.workers if worker.items]
        self.workers = [worker for worker in self.workers if worker not in abandoned]
        self._stop(abandoned)

    def _has_room(self, worker: W) -> bool:
        return worker.ready and not worker.items.exclusive and len(worker.items) < self._capacity

    def _worker_for(self, item: Item) -> W | None:
        """Return the worker with the fewest items, if it can take the item."""
        free = [worker for worker in self.workers if self._has_room(worker) and not (item.exclusive and worker.items)]
        return min(free, key=lambda worker: len(worker.items), default=None)

    def _receive_all(self) -> Iterator[Outcome]:
        for worker, message in self._receive(self._timeout()):
            if worker not in self.workers:
                continue  # replaced a moment ago, with all its items
            match message:
                case Outcome():
                    worker.items.remove(message.key)
                    self._capacity = capacity(self._at_once, message)
                    yield message
                case RateLimited(key):
                    worker.items.renew(key)
                case Ready():
                    worker.ready, self._failed_starts = True, 0
                case Exited(reason):
                    yield from self._lose(worker, reason)
        now = time.monotonic()
        for worker in list(self.workers):
            late = worker.items.overdue()
            if late is not None and not self._renewed(worker, late):
                reason = f"{late.name} did not end in {late.lease:,.0f} seconds, and the worker was killed"
                yield from self._lose(worker, reason)
        if self.workers and all(not worker.ready and now > worker.started + START_TIMEOUT_S for worker in self.workers):
            raise self._start_error(None)

    def _timeout(self) -> float:
        deadlines = [
            worker.items.next_deadline() if worker.ready else worker.started + START_TIMEOUT_S
            for worker in self.workers
        ]
        first = min((deadline for deadline in deadlines if deadline is not None), default=None)
        # Rounded up: a moment before the end of a lease there is nothing to do.
        return _MAX_WAIT_S if first is None else max(0.0, first - time.monotonic()) + 0.01

    def _renewed(self, worker: W, item: Item) -> bool:
        """Return whether a lease that has ended starts anew, because the item was waiting for a rate limit."""
        ago = self._rate_limited_since(worker, item)
        if ago is None or ago > item.lease:
            return False
        worker.items.renew(item.key, ago)
        return True

    def _lose(self, worker: W, reason: str) -> Iterator[Outcome]:
        """Remove a worker that is dead or stuck; its items are lost."""
        self.workers.remove(worker)
        self._kill(worker)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise self._start_error(reason)
        yield from worker.items.lose(worker.name, reason)
