"""Whether an answer can come from the inputs: which long inputs code has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..prompts import long_inputs
from .code_facts import names_read

UNREAD = (
    "No code of yours has read {names} yet, so these values cannot come from there. Write code that works on {names} "
    "(it is a variable in the REPL), look at what it prints, and submit the variable that holds the result."
)


@dataclass
class Grounding:
    """Which inputs have to be read before an answer can be believed, and what speaks against the present cell."""

    unread: frozenset[str]
    """Inputs that the prompt does not show whole, while no code has read any of them."""

    doubt: str | None = None

    @classmethod
    def of(cls, inputs: Mapping[str, Any], read: frozenset[str] = frozenset()) -> Grounding:
        """Return the state before the first cell. `read` are inputs that code has read before."""
        unread = frozenset(long_inputs(inputs))
        return cls(frozenset() if unread & read else unread)

    def start_cell(self, code: str, doubt: str | None) -> frozenset[str]:
        """Note what the code of the next cell reads, and why its values are doubtful. Return what is unread."""
        if names_read(code, self.unread):
            self.unread = frozenset()
        self.doubt = doubt
        return self.unread

    def objection(self) -> str | None:
        """Return why values cannot be submitted now. A doubt is raised once: submitting again confirms the value."""
        if self.unread:
            return UNREAD.format(names=" or ".join(f"`{name}`" for name in sorted(self.unread)))
        doubt, self.doubt = self.doubt, None
        return doubt
