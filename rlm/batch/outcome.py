"""`Outcome`: what became of one item, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Ending = Literal["Submitted", "Extracted", "Failed", "Lost"]
ENDINGS: tuple[Ending, ...] = ("Submitted", "Extracted", "Failed", "Lost")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item. All of it is JSON, and can be pickled."""

    key: str
    name: str
    ending: Ending
    """`Lost`: its worker died or was stuck, or its sandbox was killed. It can be tried again."""

    result: dict[str, Any] | None = None
    """`to_dict` of the result of the run; None where there was none."""

    error: str | None = None
    seconds: float = 0.0
    worker: str = ""
    run_id: str | None = None
    stop: bool = False
    """Whether the batch must end: what is wrong is wrong for every item, as where there is no isolation."""

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """The outcome that `to_dict` described."""
        return cls(**data)


def lost(key: str, name: str, error: str, *, worker: str = "", seconds: float = 0.0, stop: bool = False) -> Outcome:
    """The outcome of an item whose run did not end."""
    return Outcome(key, name, "Lost", None, error, seconds, worker, None, stop)
