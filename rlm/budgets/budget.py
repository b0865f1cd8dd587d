"""The limits of a run, and the reasons for its fallback to extraction when one is reached."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from ..text import count, dollars

if TYPE_CHECKING:
    from .ledger import Usage


class FallbackReason:
    """A limit that was reached, readable with `str()`: one of the classes below."""

    kind: ClassVar[str]
    setting: ClassVar[str]
    """The limit by its name in `FallbackTrigger`: the number to raise."""

    limit: float

    _kinds: ClassVar[dict[str, type[FallbackReason]]] = {}

    def __init_subclass__(cls) -> None:
        FallbackReason._kinds[cls.kind] = cls

    def to_dict(self) -> dict[str, Any]:
        """Return the reason as plain JSON values."""
        return {"kind": self.kind, **dataclasses.asdict(self)}  # type: ignore[call-overload]  # all are dataclasses

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> FallbackReason:
        """Return the reason that `to_dict` described."""
        values = dict(data)
        kind = values.pop("kind", None)
        if kind not in FallbackReason._kinds:
            raise ValueError(f"unknown reason {kind!r}; known are {', '.join(FallbackReason._kinds)}")
        return FallbackReason._kinds[kind](**values)


@dataclass(frozen=True, slots=True)
class MaxIterations(FallbackReason):
    """`max_iterations` was reached."""

    kind: ClassVar[str] = "max_iterations"
    setting: ClassVar[str] = "max_iterations"
    iterations: int
    limit: int

    def __str__(self) -> str:
        return f"{self.iterations} of {count(self.limit, 'iteration')} used without SUBMIT"


@dataclass(frozen=True, slots=True)
class MaxLLMCalls(FallbackReason):
    """`max_llm_calls` was reached."""

    kind: ClassVar[str] = "max_llm_calls"
    setting: ClassVar[str] = "max_llm_calls"
    calls: int
    limit: int

    def __str__(self) -> str:
        return f"{self.calls} of {count(self.limit, 'LLM call')} used without SUBMIT in the same cell"


@dataclass(frozen=True, slots=True)
class Timeout(FallbackReason):
    """`max_duration` was reached; in seconds."""

    kind: ClassVar[str] = "timeout"
    setting: ClassVar[str] = "max_duration"
    elapsed: float
    limit: float
    kept: float = 0.0
    """What of the limit is kept for the extraction."""

    def __str__(self) -> str:
        kept = f" ({self.kept:.3g} are kept for the extraction)" if self.kept else ""
        return f"{self.elapsed:.1f} of {self.limit:g} seconds used without SUBMIT{kept}"


@dataclass(frozen=True, slots=True)
class MaxTokens(FallbackReason):
    """`max_tokens` was reached."""

    kind: ClassVar[str] = "max_tokens"
    setting: ClassVar[str] = "max_tokens"
    tokens: int
    limit: int
    kept: int = 0
    """What of the limit is kept for the extraction."""

    def __str__(self) -> str:
        kept = f" ({self.kept:,} are kept for the extraction)" if self.kept else ""
        return f"{self.tokens:,} of {self.limit:,} tokens used without SUBMIT{kept}"


@dataclass(frozen=True, slots=True)
class MaxCost(FallbackReason):
    """`max_cost_usd` was reached."""

    kind: ClassVar[str] = "max_cost"
    setting: ClassVar[str] = "max_cost_usd"
    cost_usd: float
    limit: float
    kept: float = 0.0
    """What of the limit is kept for the extraction."""

    def __str__(self) -> str:
        kept = f" ({dollars(self.kept)} are kept for the extraction)" if self.kept else ""
        return f"{dollars(self.cost_usd)} of {dollars(self.limit)} spent without SUBMIT{kept}"


@dataclass(frozen=True, slots=True)
class MaxConsecutiveErrors(FallbackReason):
    """`max_consecutive_errors` was reached."""

    kind: ClassVar[str] = "max_consecutive_errors"
    setting: ClassVar[str] = "max_consecutive_errors"
    errors: int
    limit: int

    def __str__(self) -> str:
        return f"{count(self.errors, 'iteration')} in a row ended in an error (the limit is {self.limit})"


@dataclass(frozen=True, slots=True)
class ExecutionState:
    """What a run has used at one moment."""

    submitted: bool = False
    iterations: int = 0
    llm_calls: int = 0
    """Model calls of code in the REPL, child runs included."""

    elapsed: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    consecutive_errors: int = 0


@dataclass(frozen=True, slots=True)
class FallbackTrigger:
    """The limits of a run. None is no limit; a limit of 0 is reached at once."""

    max_iterations: int = 20
    """Replies of the main model."""

    max_llm_calls: int = 50
    """Model calls of code in the REPL, child runs included."""

    max_duration: float = 300.0
    """Seconds for the whole run. Python also takes a timedelta, a task file `5m` or `1h30m`."""

    max_tokens: int | None = None
    """Tokens of all model calls, input and output."""

    max_cost_usd: float | None = None
    """Cost of all model calls with a known price."""

    max_consecutive_errors: int | None = None
    """Iterations in a row that ended in an error."""

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
                expected = "a whole number" if whole else "a number"
                raise ValueError(f"{limit.name} must be {expected}, 0 or more, not {value!r}")

    @classmethod
    def strict(cls) -> FallbackTrigger:
        """Return limits for small tasks: little time, and an end after three errors in a row."""
        return cls(max_iterations=8, max_llm_calls=20, max_duration=90.0, max_consecutive_errors=3)

    @classmethod
    def lenient(cls) -> FallbackTrigger:
        """Return limits for long tasks."""
        return cls(max_iterations=60, max_llm_calls=500, max_duration=3600.0)

    def should_trigger(self, state: ExecutionState) -> FallbackReason | None:
        """Return the first limit that is reached, in the order of the fields; None if the run has submitted."""
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
        """Return the first limit that is reached of those that a run shares with its child runs."""
        if state.llm_calls >= self.max_llm_calls:
            return MaxLLMCalls(state.llm_calls, self.max_llm_calls)
        if state.elapsed >= self.max_duration:
            return Timeout(state.elapsed, self.max_duration)
        if self.max_tokens is not None and state.tokens >= self.max_tokens:
            return MaxTokens(state.tokens, self.max_tokens)
        if self.max_cost_usd is not None and state.cost_usd >= self.max_cost_usd:
            return MaxCost(state.cost_usd, self.max_cost_usd)
        return None

    def plus(self, used: Usage) -> FallbackTrigger:
        """Return the limits of a run that has used so much before, and is to have these limits from now on."""
        return dataclasses.replace(
            self,
            max_llm_calls=self.max_llm_calls + used.llm_calls,
            max_duration=self.max_duration + used.seconds,
            max_tokens=None if self.max_tokens is None else self.max_tokens + used.tokens,
            max_cost_usd=None if self.max_cost_usd is None else self.max_cost_usd + (used.cost_usd or 0.0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as plain JSON values."""
        return dataclasses.asdict(self)
