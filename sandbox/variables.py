"""A kernel's account of its variables, checked: it is hostile until here."""

from __future__ import annotations

from typing import Any

from .results import Variable

_MAX_VARIABLES = 2_000
_MAX_TEXT = 100_000


def read_variables(answer: dict[str, Any]) -> dict[str, Variable]:
    """The variables by name; whatever is malformed is left out."""
    described = answer.get("variables")
    if not isinstance(described, list):
        return {}
    found = {}
    for one in described[:_MAX_VARIABLES]:
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            variable = Variable(
                name=_text(one["name"]),
                type=_text(one.get("type")),
                size=_size(one.get("size")),
                preview=_text(one.get("preview")),
                value=one.get("value"),
                has_value=one.get("has_value") is True,
            )
            found[variable.name] = variable
    return found


def _text(value: object) -> str:
    return value[:_MAX_TEXT].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _size(value: object) -> int | tuple[int, ...] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return tuple(value[:32])
    return None
