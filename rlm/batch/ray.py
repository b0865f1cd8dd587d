"""The Ray engine: actors of a cluster, each with an event loop that runs several items at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import frames
from .engine import EngineError, Setting
from .items import Item
from .local import AT_ONCE, processors
from .outcome import Outcome, lost
from .ray_actors import ItemActor, PaceActor, packed
from .ray_cluster import Cluster

_STILLBORN = 3
_START_S = 300.0
_STOP_S = 10.0
_LONGEST_WAIT_S = 3600.0
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
        self._at_once = at_once
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
            asked = [ref for ref, key in actor.asked.items() if key is not None]
            for ref in self._ray.wait(asked, num_returns=len(asked), timeout=0)[0]:
                actor.take_back(ref)
            if actor.items:
                self._actors.remove(actor)
                self._ray.kill(actor.handle)

    def _takes(self, actor: _Actor) -> bool:
        return actor.ready and not actor.full_of_one and len(actor.items) < self._at_once

    def _room_for(self, item: Item) -> _Actor | None:
        """The actor that has the least to do, if it can take the item."""
        free = [one for one in self._actors if self._takes(one) and not (item.alone and one.items)]
        return min(free, key=lambda one: len(one.items), default=None)

    def _keep_size(self) -> None:
        if len(self._actors) >= self._size:
            return  # an actor class that is made is never forgotten by Ray
        kind = self._ray.remote(ItemActor).options(
            num_cpus=1,
            max_concurrency=self._at_once + 2,
            max_restarts=0,  # what was lost is given again by whoever drives this engine
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        while len(self._actors) < self._size:
            self._actors.append(_Actor(kind.remote(packed(self._setting.to_dict()), self._board)))

    def _wait(self) -> Iterator[Outcome]:
        """Wait until something comes from the actors, and tell what it was."""
        asked = {ref: one for one in self._actors for ref in one.asked}
        self._ray.wait(list(asked), num_returns=1, timeout=self._longest_wait())
        done, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0)
        for ref in done:
            actor = asked[ref]
            if actor in self._actors:  # or it was buried a moment ago, with all it had
                yield from self._hear(actor, ref)
        now = time.monotonic()
        for actor in list(self._actors):
            late = actor.overdue(now)
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
        actor.items[item.key] = (item, time.monotonic() - ago)
        return True

    def _longest_wait(self) -> float:
        deadlines = [since + item.lease for one in self._actors for item, since in one.items.values()]
        deadlines += [one.since + _START_S for one in self._actors if not one.ready]
        first = min(deadlines, default=None)
        return _LONGEST_WAIT_S if first is None else max(0.0, first - time.monotonic()) + 0.01

    def _hear(self, actor: _Actor, ref: Any) -> Iterator[Outcome]:
        from ray.exceptions import RayActorError, RayError

        key = actor.asked[ref]
        try:
            said = self._ray.get(ref)
        except RayError as error:
            if key is None or isinstance(error, RayActorError) or ref not in actor.asked:
                yield from self._bury(actor, _words(error))
                return
            item, since = actor.take_back(ref)
            yield lost(item.key, item.name, _words(error), worker=actor.name, seconds=time.monotonic() - since)
            return
        if key is None:
            del actor.asked[ref]
            actor.introduce(said)
            self._stillborn = 0
            return
        actor.take_back(ref)
        yield Outcome.from_dict(frames.unpack(said))

    def _bury(self, actor: _Actor, why: str) -> Iterator[Outcome]:
        """Take away an actor that is dead or stuck; what it had is lost."""
        self._actors.remove(actor)
        self._ray.kill(actor.handle)
        if not actor.ready:
            self._stillborn += 1
            if self._stillborn >= _STILLBORN:
                raise EngineError(f"Ray's workers do not start: {why}")
        now = time.monotonic()
        for item, since in actor.items.values():
            error = f"its worker {actor.name} was lost: {why}"
            yield lost(item.key, item.name, error, worker=actor.name, seconds=now - since)


class _Actor:
    """One actor as the engine sees it: what it has, and what it was asked."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.items: dict[str, tuple[Item, float]] = {}
        """What it has, by key, and since when its lease runs."""

        self.asked: dict[Any, str | None] = {handle.ready.remote(): None}
        """What Ray will have an answer to, and the key of the item it is about."""

        self.since = time.monotonic()
        self.ready = False
        self.full_of_one = False
        """It has an item that must be alone."""

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
        """Send it an item."""
        self.items[item.key] = (item, time.monotonic())
        self.full_of_one = item.alone
        self.asked[self.handle.run.remote(packed(item.to_dict()))] = item.key

    def take_back(self, ref: Any) -> tuple[Item, float]:
        """The item that an answer is about; the actor does not have it any more."""
        key = self.asked.pop(ref)
        self.full_of_one = False
        assert key is not None
        return self.items.pop(key)

    def overdue(self, now: float) -> Item | None:
        """An item that it has kept longer than its lease."""
        return next((item for item, since in self.items.values() if now > since + item.lease), None)


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
