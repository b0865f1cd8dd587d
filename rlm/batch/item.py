"""`Item`: one task of a batch, as plain data that any process on any machine can make a `Task` of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LEASE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Item:
    """One task to be run. All of it is JSON, and can be pickled."""

    key: str
    """A hash of everything that the answer depends on: see `keys.py`."""

    name: str
    """What people call it: `row 17`, or the name of its file."""

    text: str
    """Its task file, as it is written."""

    folder: str
    """Where relative paths of the task start."""

    inputs: dict[str, Any] = field(default_factory=dict)
    """Inputs in place of the task's own, written as under `inputs:` in a task file: a value, or `{file: ...}`."""

    file: str = "task.yaml"
    """The name of the task file, for messages and records; a relative one is relative to `folder`."""

    lease: float = LEASE_S
    """How many seconds it may be with a worker. After that it counts as lost, and the worker as stuck."""

    alone: bool = False
    """It was lost before: it gets a worker that runs nothing else, so that it takes no other item with it."""

    def to_dict(self) -> dict[str, Any]:
        """The item as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Item:
        """The item that `to_dict` described."""
        return cls(**data)
