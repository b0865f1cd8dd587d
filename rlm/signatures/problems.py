"""One thing that is wrong with a value, and where: the same words for inputs, outputs, SUBMIT and the retry loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..json_values import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a value."""

    path: str
    """Where, as a JSON pointer into the value: `/people/0/age`; empty for the value as a whole."""

    expected: str = ""
    got: str = ""
    message: str = ""
    """What is wrong, where "expected this, got that" does not say it."""

    rule: Path = field(default=(), repr=False, compare=False)
    """Which part of a JSON schema says so: a path into it."""

    def __str__(self) -> str:
        place = f"At path '{self.path}'" if self.path else "At path '/' (the whole value)"
        return f"{place}: {self.message or f'expected {self.expected}, got {self.got}'}"
