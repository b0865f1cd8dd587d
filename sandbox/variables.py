"""A kernel's description of its variables, checked: it is hostile until here."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from .errors import SandboxError
from .results import Variable

_MAX_VARIABLES = 2_000
_MAX_NUMBER = 1 << 53
_MAX_TEXT = 100_000
_MAX_KEPT = 16 << 20
"""What a session keeps of its variables, so that a kernel need not describe them again: memory, by estimate."""


class KnownVariables:
    """The variables as the kernel described them with the last cell, so that it need not describe them again."""

    def __init__(self) -> None:
        self.number = 0
        self._cost = 0
        self._variables: dict[str, Variable] = {}

    def read(self, answer: dict[str, Any], cost: int) -> dict[str, Variable]:
        """Return the variables by name. `cost` is the memory that the answer takes: one that is large is not kept."""
        number = answer.get("number")
        variables = read_variables(answer, self._variables)
        self._cost += cost
        if self._cost > _MAX_KEPT:
            self._variables, self._cost, self.number = {}, 0, 0
            return variables
        self._variables = variables
        self.number = number if type(number) is int and abs(number) < _MAX_NUMBER else 0
        return {name: _own(variable) for name, variable in variables.items()}


def variables_in(answer: dict[str, Any]) -> dict[str, Variable]:
    """Return the variables in an answer of the kernel. Raise `SandboxError` where it could not tell them."""
    if not isinstance(answer.get("variables"), list):
        said = str(answer.get("error", "what it sent is no account of them"))
        raise SandboxError(f"the kernel could not look at its variables: {said[:500]}")
    return read_variables(answer)


def read_variables(answer: dict[str, Any], known: Mapping[str, Variable] | None = None) -> dict[str, Variable]:
    """Return the variables by name; whatever is malformed is left out."""
    described = answer.get("variables")
    if not isinstance(described, list):
        return {}
    found = {}
    for entry in described[:_MAX_VARIABLES]:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            continue
        if entry.get("same") is True:
            if known is not None and (before := known.get(entry["name"])) is not None:
                found[before.name] = replace(before, changed=False) if before.changed else before
        else:
            variable = Variable(
                name=_text(entry["name"]),
                type=_text(entry.get("type")),
                size=_size(entry.get("size")),
                preview=_text(entry.get("preview")),
                value=entry.get("value"),
                has_value=entry.get("has_value") is True,
                changed=entry.get("changed") is True,
            )
            found[variable.name] = variable
    return found


def _own(variable: Variable) -> Variable:
    """The same, with a value that its reader may change. What is told once only holds nothing that could change."""
    return replace(variable, value=copy(variable.value)) if isinstance(variable.value, list | dict) else variable


def _text(value: object) -> str:
    return value[:_MAX_TEXT].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _size(value: object) -> int | tuple[int, ...] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, list) and all(isinstance(number, int) and not isinstance(number, bool) for number in value):
        return tuple(value[:32])
    return None
