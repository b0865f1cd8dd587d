"""The interface of executors, and the configuration that all workers of a batch share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..item import Item, Outcome

DEFAULT_AT_ONCE = 4
"""Items that one worker runs at once."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What all items of a batch share, on whichever machine they run. All values are JSON."""

    models: dict[str, str] = field(default_factory=dict)
    """Models by role (main, sub, extraction) that replace those of the task."""

    budget: dict[str, Any] = field(default_factory=dict)
    """Fields of `FallbackTrigger` that replace those of the task."""

    home: str | None = None
    """`RLM_HOME` of the workers; None leaves the environment of each as it is."""

    trace: bool = True
    """Whether the runs are recorded."""

    traffic: dict[str, Any] | None = None
    """Fields of `rlm.models.policy.RequestPolicy`: rate limits and the response cache."""

    batch: str | None = None
    """The results file of the batch; it is recorded with each run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain JSON values."""
        return {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorkerConfig:
        """Return the configuration described by `to_dict`."""
        return cls(**data)


class Executor(Protocol):
    """Runs items: `processes.py` in processes of this machine, `ray.py` in the actors of a Ray cluster.

    An executor takes an item only when a worker has room for it, and yields exactly one outcome for each item that it
    took, in the order in which they end. A worker that dies, or keeps an item for longer than its lease, is replaced;
    its items end as `Lost`, and the caller decides whether to pass them again.
    """

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        """Run the items and yield their outcomes. Raises `ExecutorError` if nothing can be run any more."""

    def close(self) -> None:
        """Stop the workers. Items that are running are abandoned."""
