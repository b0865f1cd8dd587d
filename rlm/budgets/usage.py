"""What runs have used, and what is left of their budgets: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..text import count


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used, child runs included."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    """The cost of the calls with a known price; None if there were none."""

    seconds: float = 0.0
    llm_calls: int = 0
    """Model calls of code in the REPL, which `max_llm_calls` limits."""

    model_calls: int = 0
    """All model calls, those of the main model included."""

    unpriced_calls: int = 0
    """Model calls without a known price."""

    cached_calls: int = 0
    """Model calls answered from the response cache, at no cost."""

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.tokens_in + self.tokens_out

    def add_llm_call(self) -> Usage:
        """Return the usage with one more model call of code in the REPL."""
        return Usage(
            self.tokens_in,
            self.tokens_out,
            self.cost_usd,
            self.seconds,
            self.llm_calls + 1,
            self.model_calls,
            self.unpriced_calls,
            self.cached_calls,
        )

    def add_response(self, tokens_in: int, tokens_out: int, cost_usd: float | None, cached: bool) -> Usage:
        """Return the usage with one more response. `dataclasses.replace` would take four times as long."""
        return Usage(
            self.tokens_in + tokens_in,
            self.tokens_out + tokens_out,
            self.cost_usd if cost_usd is None else (self.cost_usd or 0.0) + cost_usd,
            self.seconds,
            self.llm_calls,
            self.model_calls + 1,
            self.unpriced_calls + (cost_usd is None),
            self.cached_calls + cached,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the usage as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Usage:
        """Return the usage that `to_dict` described."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a budget, within the limits of all parent runs. None is no limit."""

    llm_calls: int
    seconds: float | None
    tokens: int | None
    cost_usd: float | None
    iterations: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is left as plain JSON values, for `budget()` in the REPL."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        left = [] if self.iterations is None else [count(self.iterations, "iteration")]
        left.append(count(self.llm_calls, "LLM call"))
        if self.seconds is not None:
            left.append(f"{self.seconds:.0f} seconds")
        if self.tokens is not None:
            left.append(f"{self.tokens:,} tokens")
        if self.cost_usd is not None:
            left.append(f"${self.cost_usd:.4f}")
        return ", ".join(left) + " left"
