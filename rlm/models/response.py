"""The outcome of one successful attempt to call a model. What callers of `rlm.models` get is `client.Answer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The text of a response, and what it cost."""

    text: str
    finish_reason: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    cached: bool = False
    """Whether dspy's cache had the response: then no server was asked."""

    @classmethod
    def of(cls, response: Any, cost_usd: float | None) -> ModelResponse:
        """Read a `dspy.lm15.Response`."""
        # Not `message.text`: that is empty when a model also shows its reasoning.
        text = "".join(part.text for part in response.message.parts if part.type == "text")
        usage = response.usage
        return cls(text, response.finish_reason, usage.input_tokens or 0, usage.output_tokens or 0, cost_usd)
