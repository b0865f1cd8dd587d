"""The limits of a run, and which of them makes it fall back to extraction."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .reasons import (
    FallbackReason,
    MaxConsecutiveErrors,
    MaxCost,
    MaxIterations,
    MaxLLMCalls,
    MaxTokens,
    Timeout,
)


@dataclass(frozen=True, slots=True)
class ExecutionState:
    """How far a run has come, at one moment."""

    submitted: bool = False
    iterations: int = 0
    llm_calls: int = 0
    """Calls that code in the REPL made, child runs included."""

    elapsed: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    consecutive_errors: int = 0


@dataclass(frozen=True, slots=True)
class FallbackTrigger:
    """The limits of a run. Those that are None are off; a limit of 0 is reached at once."""

    max_iterations: int = 20
    """How often the model may write code."""

    max_llm_calls: int = 50
    """Calls to models from inside the code."""

    max_duration: float = 300.0
    """The whole run, in seconds. Python also takes a timedelta, a task file `5m` or `1h30m`."""

    max_tokens: int | None = None
    """All models together, read and written."""

    max_cost_usd: float | None = None
    """All models together, where prices are known."""

    max_consecutive_errors: int | None = None
    """Iterations in a row that end in an error."""

    def __post_init__(self) -> None:
        duration: object = self.max_duration
        if isinstance(duration, timedelta):
            object.__setattr__(self, "max_duration", duration.total_seconds())
        for limit in dataclasses.fields(self):
            value = getattr(self, limit.name)
            whole = limit.name not in ("max_duration", "max_cost_usd")
            if value is None and limit.default is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value >= 0:
                wanted = "a whole number" if whole else "a number"
                raise ValueError(f"{limit.name} is {wanted}, 0 or more, not {value!r}")

    @classmethod
    def strict(cls) -> FallbackTrigger:
        """For small tasks: little time, and no patience with a model that only makes errors."""
        return cls(max_iterations=8, max_llm_calls=20, max_duration=90.0, max_consecutive_errors=3)

    @classmethod
    def lenient(cls) -> FallbackTrigger:
        """For long tasks."""
        return cls(max_iterations=60, max_llm_calls=500, max_duration=3600.0)

    def should_trigger(self, state: ExecutionState) -> FallbackReason | None:
        """The first limit that is reached, in the order of the fields; None when the run has submitted."""
        if state.submitted:
            return None
        if state.iterations >= self.max_iterations:
            return MaxIterations(state.iterations, self.max_iterations)
        reason = self.shared_limit(state)
        if reason is not None:
            return reason
        if self.max_consecutive_errors is not None and state.consecutive_errors >= self.max_consecutive_errors:
            return MaxConsecutiveErrors(state.consecutive_errors, self.max_consecutive_errors)
        return None

    def shared_limit(self, state: ExecutionState) -> FallbackReason | None:
        """The first limit that is reached of those that a run shares with its child runs."""
        if state.llm_calls >= self.max_llm_calls:
            return MaxLLMCalls(state.llm_calls, self.max_llm_calls)
        if state.elapsed >= self.max_duration:
            return Timeout(state.elapsed, self.max_duration)
        if self.max_tokens is not None and state.tokens >= self.max_tokens:
            return MaxTokens(state.tokens, self.max_tokens)
        if self.max_cost_usd is not None and state.cost_usd >= self.max_cost_usd:
            return MaxCost(state.cost_usd, self.max_cost_usd)
        return None

    def to_dict(self) -> dict[str, Any]:
        """The limits as plain JSON values."""
        return dataclasses.asdict(self)
