"""What a run tells those who watch it: the live view, traces. Nobody who watches can change the run.

The kinds, in the order of a run: `run_started`; for each iteration `iteration_started`, `model_asked`, `model_answered`
(or `model_failed`), `cell_started`, `call_started` and `call_ended` for each host call, `cell_ended`, `variables`,
`history`, `budget`; then, where a limit was reached, `trigger_fired` and an `extraction_attempt` for each; `tiers`,
where there were typed questions; `run_ended`. Between them: `compacted`, `replay_differs`, `run_interrupted`. A child
run tells its own, under its own id.

A run with plans tells `plans_compared`, `plan_selected`, `plan_rejected`, `plan_escalated`, `escalation_answered` and
`plan_answered`; the runs of its plans are its children.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

_logger = logging.getLogger("rlm")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run. All values are plain, but for the inputs in `run_started`: these are live."""

    kind: str
    run_id: str
    data: dict[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time)
    """When, in seconds since 1970."""


Observer: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """An observer that looks away."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells the observer what happens in one run."""

    run_id: str
    observer: Observer

    @property
    def heard(self) -> bool:
        """Whether anybody listens: what is costly to tell need not be put together if not."""
        return self.observer is not ignore

    def __call__(self, kind: str, data: dict[str, Any]) -> None:
        """Tell of one thing that happened."""
        try:
            self.observer(Event(kind, self.run_id, data))
        except Exception:
            _logger.exception("an observer failed at %s of run %s; the run goes on", kind, self.run_id)


def all_of(*observers: Observer) -> Observer:
    """One observer that passes everything on to several. Those that look away are left out."""
    looking = [one for one in observers if one is not ignore]
    if len(looking) < 2:
        return looking[0] if looking else ignore

    def observe(event: Event) -> None:
        for observer in looking:
            observer(event)

    return observe
