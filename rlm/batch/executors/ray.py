"""The Ray engine: actors of a cluster, each with an event loop that runs several items at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..item import Item
from ..outcome import Outcome
from ..worker import messages
from .base import EngineError, Setting, room
from .leases import Held
from .processes import AT_ONCE, processors
from .ray_actors import ItemActor, PaceActor
from .ray_cluster import Cluster

_STILLBORN = 3
_START_S = 300.0
_STOP_S = 10.0
_LONGEST_WAIT_S = 3600.0
_CALLS = 10
"""Calls that an actor answers at once; its items are not calls."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RayEngine:
    """Runs items in the actors of a Ray cluster. See `Engine`."""

    def __init__(
        self,
        setting: Setting | None = None,
        *,
        address: str | None = None,
        workers: int | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        """`address` is that of a cluster, or `auto`; without it, one is started on this machine, for itself alone.

        `workers` actors (as many as the cluster has processors, unless told), each with `at_once` items at a time.
        Raises `EngineError` where there is no Ray, or no cluster.
        """
        self._setting = setting or Setting()
        if self._setting.home is not None:
            Path(self._setting.home).mkdir(parents=True, exist_ok=True)  # where it is missing is another machine
        self._at_once = self._room = at_once
        self._cluster = Cluster(address, workers or processors())
        self._ray: Any = self._cluster.ray
        self._size = workers or self._cluster.processors
        # On one machine its processes keep the pace by a file, also with those that are not of this batch.
        alone = self._cluster.here or self._setting.traffic is None
        self._board = None if alone else self._ray.remote(PaceActor).options(num_cpus=0, max_concurrency=1000).remote()
        self._actors: list[_Actor] = []
        self._stillborn = 0
        """Actors in a row that ended before they could take an item."""

    @property
    def pids(self) -> list[int]:
        """The processes of the actors that are ready, each on its machine."""
        return [one.pid for one in self._actors if one.ready]

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        """Run the items, and yield what becomes of each, as they come."""
        source, waiting, ended = iter(items), None, False
        self._drop_unfinished()
        while True:
            while not ended and (waiting is not None or not self._actors or any(map(self._takes, self._actors))):
                if waiting is None:
                    waiting = next(source, None)
                    ended = waiting is None
                    continue
                actor = self._room_for(waiting)
                if actor is None:
                    break
                actor.give(waiting)
                waiting = None
            if ended and not any(one.items for one in self._actors):
                return
            self._keep_size()
            yield from self._wait()

    def close(self) -> None:
        """End the actors, and the cluster if it was started here. What they are running is left unfinished."""
        ray = self._ray
        stopping = [one.handle.stop.remote() for one in self._actors if one.ready]
        if stopping:
            ray.wait(stopping, num_returns=len(stopping), timeout=_STOP_S)
        for one in self._actors:
            ray.kill(one.handle)
        self._actors.clear()
        if self._board is not None:
            ray.kill(self._board)
            self._board = None
        self._cluster.close()

    def _drop_unfinished(self) -> None:
        """End the actors that still run items of a run that nobody listened to until its end."""
        for actor in [one for one in self._actors if one.items]:
            self._actors.remove(actor)
            self._ray.kill(actor.handle)

    def _takes(self, actor: _Actor) -> bool:
        return actor.ready and not actor.items.alone and len(actor.items) < self._room

    def _room_for(self, item: Item) -> _Actor | None:
        """The actor that has the least to do, if it can take the item."""
        free = [one for one in self._actors if self._takes(one) and not (item.alone and one.items)]
        return min(free, key=lambda one: len(one.items), default=None)

    def _keep_size(self) -> None:
        if len(self._actors) >= self._size:
            return  # an actor class that is made is never forgotten by Ray
        kind = self._ray.remote(ItemActor).options(
            num_cpus=1,
            max_concurrency=_CALLS,
            max_restarts=0,  # what was lost is given again by whoever drives this engine
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        setting = messages.encoded(self._setting.to_dict())
        while len(self._actors) < self._size:
            self._actors.append(_Actor(kind.remote(setting, self._at_once, self._board), self._at_once))

    def _wait(self) -> Iterator[Outcome]:
        """Wait until something comes from the actors, and tell what it was."""
        for one in self._actors:
            one.send()
        asked = {ref: one for one in self._actors for ref in one.asked}
        self._ray.wait(list(asked), num_returns=1, timeout=self._longest_wait())
        done, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0)
        for ref in done:
            actor = asked[ref]
            if actor in self._actors:  # or it was buried a moment ago, with all it had
                yield from self._hear(actor, ref)
        now = time.monotonic()
        for actor in list(self._actors):
            late = actor.items.overdue()
            if late is not None and not self._renewed(actor, late):
                yield from self._bury(actor, f"{late.name} was not done after {late.lease:,.0f} seconds")
        if self._actors and all(not one.ready and now > one.since + _START_S for one in self._actors):
            raise EngineError(f"the Ray cluster had no room for a worker in {_START_S:.0f} seconds")

    def _renewed(self, actor: _Actor, item: Item) -> bool:
        """Whether a lease that has ended begins anew, because the item waited for its turn to ask a model."""
        from ray.exceptions import RayError

        try:
            ago = self._ray.get(actor.handle.waited.remote(item.key), timeout=_STOP_S)
        except RayError:  # it is gone, or stuck
            return False
        if ago is None or ago > item.lease:
            return False
        actor.items.renew(item.key, ago)
        return True

    def _longest_wait(self) -> float:
        deadlines = [one.items.next_deadline() if one.ready else one.since + _START_S for one in self._actors]
        first = min((one for one in deadlines if one is not None), default=None)
        return _LONGEST_WAIT_S if first is None else max(0.0, first - time.monotonic()) + 0.01

    def _hear(self, actor: _Actor, ref: Any) -> Iterator[Outcome]:
        from ray.exceptions import RayError

        actor.asked.remove(ref)
        try:
            said = self._ray.get(ref)
        except RayError as error:
            yield from self._bury(actor, _words(error))
            return
        if not actor.ready:
            actor.introduce(said)
            self._stillborn = 0
            return
        for one in messages.unpack(said)["outcomes"]:
            outcome = Outcome.from_dict(one)
            actor.items.take_back(outcome.key)
            self._room = room(self._at_once, outcome)
            yield outcome

    def _bury(self, actor: _Actor, why: str) -> Iterator[Outcome]:
        """Take away an actor that is dead or stuck; what it had is lost."""
        self._actors.remove(actor)
        self._ray.kill(actor.handle)
        if not actor.ready:
            self._stillborn += 1
            if self._stillborn >= _STILLBORN:
                raise EngineError(f"Ray's workers do not start: {why}")
        yield from actor.items.lose(actor.name, why)


class _Actor:
    """One actor as the engine sees it: what it has, and what it was asked."""

    def __init__(self, handle: Any, at_once: int) -> None:
        self.handle = handle
        self.items = Held(at_once)
        self.asked: list[Any] = [handle.ready.remote()]
        """What Ray will have an answer to: first whether it is ready, and from then on what became of items."""

        self._unsent: list[dict[str, Any]] = []

        self.since = time.monotonic()
        self.ready = False
        self.pid = 0
        self.name = "that was starting"

    def introduce(self, said: dict[str, Any]) -> None:
        """It is ready. Raises `EngineError` if it runs other code than we do."""
        from rlm import __version__

        self.pid, self.name, self.ready = said["pid"], f"{said['host']}:{said['pid']}", True
        if said["rlm"] != __version__:
            raise EngineError(
                f"rlm-kernel is {said['rlm']} on {said['host']} ({said['python']}) and {__version__} here; "
                "install the same on all machines"
            )

    def give(self, item: Item) -> None:
        """Let it have an item, when `send` is called."""
        self.items.give(item)
        self._unsent.append(item.to_dict())

    def send(self) -> None:
        """Send it what it was given, and ask what became of its items, unless it has been asked already."""
        if self._unsent or (self.items and not self.asked):
            self.asked.append(self.handle.exchange.remote(messages.encoded({"items": self._unsent})))
            self._unsent = []


def _words(error: Exception) -> str:
    """What Ray says of an error, without its tracebacks."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return f"{type(cause).__name__}: {cause}"
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if "creation task" not in lines[0]:
        return lines[0]
    # What went wrong while it started comes last, after a traceback.
    if lines[-1].startswith(("ModuleNotFoundError", "ImportError")):
        return f"{lines[-1]}; rlm-kernel must be installed on all machines of the cluster"
    return lines[-1]
