"""`Item`, one task of a batch, and `Outcome`, the record of how it ended: plain data that travels between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DEFAULT_LEASE_S = 3600.0

Ending = Literal["Submitted", "Extracted", "Failed", "Lost"]
ENDINGS: tuple[Ending, ...] = ("Submitted", "Extracted", "Failed", "Lost")
UNSUCCESSFUL: tuple[Ending, ...] = ("Failed", "Lost")


@dataclass(frozen=True, slots=True)
class Item:
    """One task to run. All values are JSON, and the item can be pickled."""

    key: str
    """The hash of everything that the answer depends on: see `fingerprint.py`."""

    name: str
    """The name in results and messages: `row 17`, or the name of the file."""

    text: str
    """The text of the task file."""

    folder: str
    """The base directory of relative paths in the task."""

    inputs: dict[str, Any] = field(default_factory=dict)
    """Inputs that replace those of the task file, in the same notation: a value, or `{file: ...}`."""

    file: str = "task.yaml"
    """The name of the task file, relative to `folder`; it appears in messages and traces."""

    lease: float = DEFAULT_LEASE_S
    """The seconds that a worker may take. After that the item is lost and its worker is replaced."""

    exclusive: bool = False
    """Whether the item needs a worker that runs nothing else: it was lost before and must not take others with it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the item as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Item:
        """Return the item described by `to_dict`."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one item ended. All values are JSON, and the outcome can be pickled."""

    key: str
    name: str
    ending: Ending
    """`Lost` means that the worker died or was stuck, or that the sandbox was killed. Such an item can be retried."""

    result: dict[str, Any] | None = None
    """`to_dict` of the result of the run; None if there was no run."""

    error: str | None = None
    seconds: float = 0.0
    worker: str = ""
    run_id: str | None = None
    fatal: bool = False
    """Whether every other item would fail for the same reason, such as missing isolation: the batch must stop."""

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens, calls and cost of the run; empty if nothing was counted."""
        return (self.result or {}).get("usage") or {}

    @property
    def outputs(self) -> dict[str, Any] | None:
        """The values of the output fields; None if there is no answer."""
        return (self.result or {}).get("outputs")

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """Return the outcome described by `to_dict`."""
        return cls(**data)


def lost(key: str, name: str, error: str, *, worker: str = "", seconds: float = 0.0, fatal: bool = False) -> Outcome:
    """Return the outcome of an item whose run did not end."""
    return Outcome(key, name, "Lost", None, error, seconds, worker, None, fatal)
