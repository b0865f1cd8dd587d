"""The Ray executor: actors of a cluster, each with an event loop that runs several items at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import ExecutorError
from ..item import Item, Outcome
from ..worker import messages
from .base import DEFAULT_AT_ONCE, WorkerConfig
from .processes import processor_count
from .ray_actors import ItemActor, RateLimitActor
from .ray_cluster import Cluster
from .scheduler import START_TIMEOUT_S, Exited, LeasedItems, Message, Ready, Scheduler

_STOP_S = 10.0
_ACTOR_CALLS = 10
"""Calls that an actor answers at once; its items are not calls."""
_ANSI_COLOR = re.compile(r"\x1b\[[0-9;]*m")


class RayExecutor(Scheduler["RayWorker"]):
    """Runs items in the actors of a Ray cluster. See `Executor`."""

    def __init__(
        self,
        config: WorkerConfig | None = None,
        *,
        address: str | None = None,
        workers: int | None = None,
        at_once: int = DEFAULT_AT_ONCE,
    ) -> None:
        """Connect to the cluster at `address`, which may be `auto`; without it, start one on this machine.

        There are `workers` actors (default: one per processor of the cluster), each running `at_once` items. Raises
        `ExecutorError` if Ray is not installed or there is no such cluster.
        """
        self._config = config or WorkerConfig()
        if self._config.home is not None:
            Path(self._config.home).mkdir(parents=True, exist_ok=True)  # if it is missing, a worker is elsewhere
        self._cluster = Cluster(address, workers or processor_count())
        super().__init__(workers or self._cluster.processors, at_once)
        self._ray: Any = self._cluster.ray
        # The processes of one machine share rate limits in a file, also with processes outside of this batch.
        shared_file = self._cluster.local or self._config.traffic is None
        self._rate_limits = None if shared_file else self._start_rate_limits()
        self._actor_class: Any = None

    @property
    def pids(self) -> list[int]:
        """The process ids of the actors that are ready, each on its own machine."""
        return [worker.pid for worker in self.workers if worker.ready]

    def close(self) -> None:
        """Stop the actors, and the cluster if it was started here. Items that are running are abandoned."""
        super().close()
        if self._rate_limits is not None:
            self._ray.kill(self._rate_limits)
            self._rate_limits = None
        self._cluster.close()

    def _start(self) -> RayWorker:
        if self._actor_class is None:  # Ray never forgets a class
            self._actor_class = self._ray.remote(ItemActor).options(
                num_cpus=1,
                max_concurrency=_ACTOR_CALLS,
                max_restarts=0,  # lost items are passed again by the driver
                max_task_retries=0,
                scheduling_strategy="SPREAD",
            )
        config = messages.encode(self._config.to_dict())
        return RayWorker(self._actor_class.remote(config, self._at_once, self._rate_limits), self._at_once)

    def _start_rate_limits(self) -> Any:
        return self._ray.remote(RateLimitActor).options(num_cpus=0, max_concurrency=1000).remote()

    def _receive(self, timeout: float) -> Iterator[tuple[RayWorker, Message]]:
        for worker in self.workers:
            worker.flush()
        calls = {ref: worker for worker in self.workers for ref in worker.calls}
        self._ray.wait(list(calls), num_returns=1, timeout=timeout)
        answered, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        for ref in answered:
            worker = calls[ref]
            yield from ((worker, message) for message in self._read(worker, ref))

    def _read(self, worker: RayWorker, ref: Any) -> Iterator[Message]:
        from ray.exceptions import RayError

        worker.calls.remove(ref)
        try:
            answer = self._ray.get(ref)
        except RayError as error:
            yield Exited(one_line(error))
            return
        if not worker.ready:
            worker.identify(answer)
            yield Ready()
            return
        for outcome in messages.unpack(answer)["outcomes"]:
            yield Outcome.from_dict(outcome)

    def _rate_limited_since(self, worker: RayWorker, item: Item) -> float | None:
        from ray.exceptions import RayError

        try:
            ago: float | None = self._ray.get(worker.actor.rate_limited_since.remote(item.key), timeout=_STOP_S)
        except RayError:  # dead or stuck
            return None
        return ago

    def _kill(self, worker: RayWorker) -> None:
        self._ray.kill(worker.actor)

    def _stop(self, workers: Sequence[RayWorker]) -> None:
        stopping = [worker.actor.stop.remote() for worker in workers if worker.ready]
        if stopping:
            self._ray.wait(stopping, num_returns=len(stopping), timeout=_STOP_S)
        for worker in workers:
            self._ray.kill(worker.actor)

    def _start_error(self, reason: str | None) -> ExecutorError:
        if reason is None:
            return ExecutorError(f"the Ray cluster had no room for a worker within {START_TIMEOUT_S:.0f} seconds")
        return ExecutorError(f"Ray's workers do not start: {reason}")


class RayWorker:
    """One actor as its executor sees it."""

    def __init__(self, actor: Any, at_once: int) -> None:
        self.actor = actor
        self.items = LeasedItems(at_once)
        self.name = "that was starting"
        self.ready = False
        self.started = time.monotonic()
        self.pid = 0
        self.calls: list[Any] = [actor.ready.remote()]
        """References to calls that are not answered: first whether the actor is ready, then exchanges of items."""

        self._unsent: list[dict[str, Any]] = []
        self._exchanges = 0

    def identify(self, answer: dict[str, Any]) -> None:
        """Note where the actor runs. Raises `ExecutorError` if it has another version of rlm."""
        from rlm import __version__

        self.pid, self.name = answer["pid"], f"{answer['host']}:{answer['pid']}"
        if answer["rlm"] != __version__:
            raise ExecutorError(
                f"rlm-kernel is {answer['rlm']} on {answer['host']} ({answer['python']}) and {__version__} here; "
                "install the same version on all machines"
            )

    def send(self, item: Item) -> None:
        """Queue an item until `flush`."""
        self._unsent.append(item.to_dict())

    def flush(self) -> None:
        """Send the queued items and ask for outcomes, unless there is nothing to send and a call is waiting."""
        if self._unsent or (self.items and not self.calls):
            message = {"number": self._exchanges, "items": self._unsent}
            self.calls.append(self.actor.exchange.remote(messages.encode(message)))
            self._exchanges += 1
            self._unsent = []


def one_line(error: Exception) -> str:
    """Return the message of an error of Ray, without its tracebacks."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return f"{type(cause).__name__}: {cause}"
    lines = [line.strip() for line in _ANSI_COLOR.sub("", str(error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if "creation task" not in lines[0]:
        return lines[0]
    # An error while the actor starts comes last, after a traceback.
    if lines[-1].startswith(("ModuleNotFoundError", "ImportError")):
        return f"{lines[-1]}; rlm-kernel must be installed on all machines of the cluster"
    return lines[-1]
