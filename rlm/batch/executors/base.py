"""What runs items: one protocol, and what all engines of a batch are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..item import Item
from ..outcome import Outcome

QUICK_S = 1.0
_AHEAD = 4
"""Quick items that a worker is given ahead at the least: they share the price of a message."""


def room(at_once: int, last: Outcome | None) -> int:
    """How many items a worker is given that runs `at_once` of them, after the `last` outcome that came.

    Items that take little time are sent ahead, so that no worker waits for its driver. Others are not: a worker would
    keep what another one could begin.
    """
    quick = last is not None and last.ending != "Lost" and last.seconds < QUICK_S
    return at_once + max(at_once, _AHEAD) if quick else at_once


class EngineError(Exception):
    """The engine cannot go on: its workers do not start, say. What was done is done."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all items of a batch share, wherever they run. All of it is JSON, and can be pickled."""

    models: dict[str, str] = field(default_factory=dict)
    """By role, in place of those of the task: main, sub, extraction."""

    budget: dict[str, Any] = field(default_factory=dict)
    """Fields of `FallbackTrigger`, in place of those of the task."""

    home: str | None = None
    """`RLM_HOME` of the workers; None is what they find."""

    trace: bool = True
    """Whether the runs are recorded."""

    traffic: dict[str, Any] | None = None
    """Fields of `rlm.models.policy.Traffic`: rate limits, and the cache of answers."""

    batch: str | None = None
    """The results file of the batch: its runs have it on record, with the names of their items."""

    def to_dict(self) -> dict[str, Any]:
        """The setting as plain JSON values."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Setting:
        """The setting that `to_dict` described."""
        return cls(**data)


class Engine(Protocol):
    """Runs items somewhere: `local.py` in processes of this machine, `ray.py` in actors of a cluster.

    An engine takes an item when it has room for it (see `room`), not before, and yields exactly one outcome for each
    item it took, as they come. A worker that dies, or keeps an item longer than its lease, is replaced; its items are
    yielded as `Lost`, and whoever drives the engine decides whether to give them again. An item that is `alone` gets a
    worker that runs nothing else. `run` may be called again after it has ended.
    """

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        """Run the items, and yield what becomes of each. Raises `EngineError` when nothing can be run any more."""

    def close(self) -> None:
        """End the workers. What they are running is left unfinished."""
