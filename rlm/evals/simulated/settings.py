"""How good an oracle is: its window, how often it misreads, how often its code is bad."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Oracle:
    """What is set about an oracle. All rates are from 0 to 1."""

    error: float = 0.01
    """How likely one fact (a value, the topic of a message) is misread in a short prompt."""

    doubling: int = 8_000
    """With so many tokens in the prompt a fact is misread twice as often, with twice as many three times, and so on."""

    window: int = 32_000
    """Tokens that a prompt may have. A longer one is refused, as a server does it."""

    bad_code: float = 0.05
    """How likely a cell does not run: a syntax error, an unknown name, no code at all, a value of a wrong type."""

    wrong_code: float = 0.01
    """How likely a cell runs and is wrong: it reads only half of the text."""

    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("error", "bad_code", "wrong_code"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: a rate is from 0 to 1")
        if self.doubling <= 0 or self.window <= 0:
            raise ValueError("doubling and window are numbers of tokens, above 0")

    def misreads(self, tokens: int) -> float:
        """How likely a fact is misread in a prompt of so many tokens: at most in nine cases of ten."""
        return min(0.9, self.error * (1 + tokens / self.doubling))
