"""The warning that `--max-cost` does not count calls of models without a known price."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..evals.simulated import ORACLE
from .formatting import count

if TYPE_CHECKING:
    from ..tasks import Task


def costs_money(task: Task) -> bool:
    """Return whether a task asks models that may cost money: not local, not scripted, not the built-in one."""
    return any(spec.scripted is None and not spec.local and spec.model != ORACLE for spec in task.asked.values())


class CostWarning:
    """Warns once, the first time that a limit on the cost does not count all calls."""

    def __init__(self, active: bool, say: Callable[[str], None]) -> None:
        """`active` is whether there is a limit, and a model that may cost money."""
        self._active, self._say = active, say

    def check(self, run: str, usage: Mapping[str, Any] | None) -> None:
        """Check the usage of a run."""
        calls = int((usage or {}).get("unpriced_calls") or 0)
        if self._active and calls:
            self._active = False
            self._say(
                f"--max-cost: no price is known for {count(calls, 'call')} of {run}. Such calls count as free, and "
                "the limit does not stop them."
            )
