"""What a run tells those who watch it: the live view, traces. Plain values; nobody who watches can change the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run."""

    kind: str
    run_id: str
    data: dict[str, Any] = field(default_factory=dict)


Observer: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """An observer that looks away."""
