"""What a local model is asked, and what it answers with. Plain values, the same for every backend."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .constraints import Constraint

Turns = tuple[tuple[str, str], ...]
"""Messages as (role, text); roles are system, user and assistant. An assistant's at the end is gone on with."""

Say = Callable[[str], bool]
"""Told each new piece of text. Answers whether to go on: False stops the model at the next token."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to generate. A temperature of 0 takes the likeliest token."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.temperature < 0:  # it would prefer what is least likely
            raise ValueError(f"temperature is {self.temperature}; it has to be at least 0")


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: waiting for the model to be free, compiling the constraint, reading the prompt, writing the answer."""

    queued: float = 0.0
    compile: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0


@dataclass(frozen=True, slots=True)
class Generated:
    """What a model wrote. `length` means that it was cut off: a constrained answer is then not valid."""

    text: str
    finish: Literal["stop", "length", "cancelled"]
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    forced_tokens: int = 0
    masked_tokens: int = 0
    timings: Timings = field(default_factory=Timings)


def seconds_queued(response: Any) -> float:
    """How long a request waited for the model to be free, by dspy's response; 0 for a model that is not a local one."""
    details = getattr(response, "provider_data", None) or {}
    return float((details.get("timings") or {}).get("queued", 0.0))


class LocalModel(Protocol):
    """One set of weights in memory. Safe to call from any thread; it queues what it cannot do at once."""

    name: str
    backend: str
    context: int
    outlines: Any
    penalises: bool
    """Whether it can write what it has written before less often."""

    def submit(
        self, turns: Turns | str, settings: Settings, constraint: Constraint | None = None, say: Say | None = None
    ) -> Future[Generated]:
        """One answer, in a thread of the model's. `turns` go through the chat template; a text is continued as is."""

    def close(self) -> None:
        """Let go of the weights."""
