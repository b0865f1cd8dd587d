"""The settings of an oracle: its context window and its error rates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Oracle:
    """The settings of an oracle. All rates are from 0 to 1."""

    error: float = 0.01
    """The probability that a fact (a value, the topic of a message) is misread in a short prompt."""

    doubling: int = 8_000
    """The number of prompt tokens that adds the base error rate once more: the rate grows linearly."""

    window: int = 32_000
    """The context window in tokens. A longer prompt is refused, as by a server."""

    bad_code: float = 0.05
    """The probability that a cell fails: a syntax error, an unknown name, no code, or a value of a wrong type."""

    wrong_code: float = 0.01
    """The probability that a cell runs but is wrong: it reads only half of the text."""

    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("error", "bad_code", "wrong_code"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: a rate must be from 0 to 1")
        if self.doubling <= 0 or self.window <= 0:
            raise ValueError("doubling and window must be numbers of tokens above 0")

    def misreading_rate(self, tokens: int) -> float:
        """Return the probability that a fact is misread in a prompt of so many tokens: 0.9 at most."""
        return min(0.9, self.error * (1 + tokens / self.doubling))
