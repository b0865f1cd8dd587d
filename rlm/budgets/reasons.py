"""Why a run was stopped before it submitted: one frozen value for each limit, readable with `str()`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


class FallbackReason:
    """A limit that was reached. One of the classes below."""

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[FallbackReason]]] = {}

    def __init_subclass__(cls) -> None:
        FallbackReason._kinds[cls.kind] = cls

    def to_dict(self) -> dict[str, Any]:
        """The reason as plain JSON values."""
        return {"kind": self.kind, **dataclasses.asdict(self)}  # type: ignore[call-overload]  # all are dataclasses

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> FallbackReason:
        """The reason that `to_dict` described."""
        values = dict(data)
        kind = values.pop("kind", None)
        if kind not in FallbackReason._kinds:
            raise ValueError(f"unknown reason {kind!r}; known are {', '.join(FallbackReason._kinds)}")
        return FallbackReason._kinds[kind](**values)


@dataclass(frozen=True, slots=True)
class MaxIterations(FallbackReason):
    """The model wrote code as often as it may."""

    kind: ClassVar[str] = "max_iterations"
    iterations: int
    limit: int

    def __str__(self) -> str:
        return f"{self.iterations} of {self.limit} iterations used without SUBMIT"


@dataclass(frozen=True, slots=True)
class MaxLLMCalls(FallbackReason):
    """Code in the REPL asked models as often as it may."""

    kind: ClassVar[str] = "max_llm_calls"
    calls: int
    limit: int

    def __str__(self) -> str:
        return f"{self.calls} of {self.limit} LLM calls used without SUBMIT"


@dataclass(frozen=True, slots=True)
class Timeout(FallbackReason):
    """The time is up. Both are in seconds."""

    kind: ClassVar[str] = "timeout"
    elapsed: float
    limit: float

    def __str__(self) -> str:
        return f"{self.elapsed:.1f} of {self.limit:g} seconds used without SUBMIT"


@dataclass(frozen=True, slots=True)
class MaxTokens(FallbackReason):
    """All models together read and wrote as many tokens as they may."""

    kind: ClassVar[str] = "max_tokens"
    tokens: int
    limit: int

    def __str__(self) -> str:
        return f"{self.tokens:,} of {self.limit:,} tokens used without SUBMIT"


@dataclass(frozen=True, slots=True)
class MaxCost(FallbackReason):
    """All models together cost as much as they may, in USD."""

    kind: ClassVar[str] = "max_cost"
    cost_usd: float
    limit: float

    def __str__(self) -> str:
        return f"${self.cost_usd:.4f} of ${self.limit:.4f} spent without SUBMIT"


@dataclass(frozen=True, slots=True)
class MaxConsecutiveErrors(FallbackReason):
    """Nothing but errors for as many iterations as may be."""

    kind: ClassVar[str] = "max_consecutive_errors"
    errors: int
    limit: int

    def __str__(self) -> str:
        return f"{self.errors} iterations in a row ended in an error (the limit is {self.limit})"
