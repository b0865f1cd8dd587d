"""Requests to a local model and its answers, as plain values: the same for every backend."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .constraints import Constraint

Turns = tuple[tuple[str, str], ...]
"""Messages as (role, text), with the roles system, user and assistant. A trailing assistant message is continued."""

OnText = Callable[[str], bool]
"""Called with each new piece of text. Returns whether to continue: False stops the model at the next token."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of generation. A temperature of 0 takes the likeliest token."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.temperature < 0:  # it would prefer the least likely tokens
            raise ValueError(f"temperature is {self.temperature}; it has to be at least 0")


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of waiting for the model, of compiling the constraint, of reading the prompt and of generating."""

    queued: float = 0.0
    compile: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0


@dataclass(frozen=True, slots=True)
class Generated:
    """An answer. With the finish `length` it was cut off, and a constrained answer is then not valid."""

    text: str
    finish: Literal["stop", "length", "cancelled"]
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    forced_tokens: int = 0
    masked_tokens: int = 0
    timings: Timings = field(default_factory=Timings)


def seconds_queued(response: Any) -> float:
    """Return how long a request waited for a local model, from dspy's response; 0 for a remote model."""
    details = getattr(response, "provider_data", None) or {}
    return float((details.get("timings") or {}).get("queued", 0.0))


class LocalModel(Protocol):
    """One set of weights in memory. Safe to call from any thread; requests are queued."""

    name: str
    backend: str
    context: int
    outlines: Any
    has_penalties: bool
    """Whether it supports frequency and presence penalties."""

    def submit(
        self,
        turns: Turns | str,
        settings: Settings,
        constraint: Constraint | None = None,
        on_text: OnText | None = None,
    ) -> Future[Generated]:
        """Generate one answer in a thread of the model. `turns` are rendered by the chat template; a text is not."""

    def close(self) -> None:
        """Release the weights."""
