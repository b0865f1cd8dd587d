"""What `--max-cost` cannot see: calls of models that no price is known of. That is said, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .formatting import count

if TYPE_CHECKING:
    from ..tasks import Task


def costs_money(task: Task) -> bool:
    """Whether a task asks models that somebody may be paid for: none that runs here, and no script."""
    return any(spec.scripted is None and not spec.local and spec.model != "oracle" for spec in task.asked.values())


class Unpriced:
    """Says, the first time that it happens, that a limit on the cost does not count all calls."""

    def __init__(self, watched: bool, say: Callable[[str], None]) -> None:
        """`watched` is whether there is a limit, and something that may cost."""
        self._watched, self._say = watched, say

    def look(self, whose: str, usage: Mapping[str, Any] | None) -> None:
        """Look at what a run has used."""
        calls = int((usage or {}).get("unpriced_calls") or 0)
        if self._watched and calls:
            self._watched = False
            self._say(
                f"--max-cost: no price is known for {count(calls, 'call')} of {whose}. Such calls count as free, and "
                "the limit does not stop them."
            )
