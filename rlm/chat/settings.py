"""`SessionSettings`: how a session of several questions is kept. Its inputs are not here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..budgets import FallbackTrigger

UNLIMITED = FallbackTrigger(max_iterations=10**9, max_llm_calls=10**9, max_duration=math.inf)
IDLE_S = 600.0


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a session: `rlm.Predict(...).session(rlm.SessionSettings(...), doc=text)`."""

    total: FallbackTrigger = UNLIMITED
    """The budget of all questions together. `max_iterations` and `max_consecutive_errors` are for each question."""

    idle_seconds: float = IDLE_S
    """A session without a question for so long gives its kernel back. The next question rebuilds it."""

    record: bool = True
    """Whether the session is on disk, so that it survives its process."""

    title: str = ""
    """What the session is about, for lists."""
