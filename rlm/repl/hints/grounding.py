"""Whether an answer can come from the inputs: which long inputs code has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..prompts import long_inputs
from .code_facts import constant_names, names_computed, names_read

UNREAD = (
    "No code of yours has read {names} yet, so these values cannot come from there. Write code that works on {names} "
    "(it is a variable in the REPL), look at what it prints, and submit the variable that holds the result."
)
NOTHING_FOUND = "nothing was found."
EMPTY = f"{{values}}: {NOTHING_FOUND}"
CONSTANT = "{names} is written down in the code, and not computed. Compute it from the data."


@dataclass
class Grounding:
    """Which inputs have to be read before an answer can be believed, and whether doubtful answers are refused."""

    unread: frozenset[str]
    """Inputs that the prompt does not show whole, while no code has read any of them."""

    doubtful: bool = False
    """Whether outputs that are all empty, or all constants of the code, are refused once."""

    constants: frozenset[str] = frozenset()
    """The names that the present cell sets to constants only."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any], read: frozenset[str] = frozenset(), *, doubtful: bool = False) -> Grounding:
        """Return the state before the first cell. `read` are inputs that code has read before."""
        unread = frozenset(long_inputs(inputs))
        return cls(frozenset() if unread & read else unread, doubtful=doubtful)

    def start_cell(self, code: str) -> frozenset[str]:
        """Note what the code of the next cell reads. Return what is unread."""
        if names_read(code, self.unread):
            self.unread = frozenset()
        self.constants = constant_names(code) - names_computed(code)
        return self.unread

    def objection(self, values: Any = None) -> str | None:
        """Return why values cannot be submitted now. A doubt is raised once: submitting again confirms the value."""
        if self.unread:
            return UNREAD.format(names=" or ".join(f"`{name}`" for name in sorted(self.unread)))
        doubt = None
        if self.doubtful and isinstance(values, Mapping) and not any(values.values()):
            doubt = EMPTY.format(values=", ".join(f"{name} is {value!r}" for name, value in values.items()))
        elif self.doubtful and isinstance(values, Mapping) and self.constants.issuperset(values):
            doubt = CONSTANT.format(names=", ".join(f"`{name}`" for name in values))
        self.doubtful = self.doubtful and doubt is None
        return doubt
