"""What the host has been told about the variables: what has not changed since is not told again.

Only what can be compared without running any code of an object is remembered: texts, numbers, and lists and dicts of
nothing but these. The rest is described anew each time.
"""

from __future__ import annotations

import builtins
from operator import is_
from typing import Any

globals()["__builtins__"] = dict(vars(builtins))  # see anatomy.py

_TEXT_CHARS = 1 << 16  # a longer text is not kept from being freed


class Told:
    """The variables of the last account, which has a number: the host names the last one it has read."""

    __slots__ = ("_things", "number")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._things: dict[str, tuple[Any, Any]] = {}

    def add(self, name: str, thing: Any, described: dict[str, Any]) -> None:
        """Remember a variable as it was described, if it can be compared later."""
        kind, value = type(thing), described.get("value")
        if _is_plain(thing):
            if not (kind is str or kind is bytes) or len(thing) <= _TEXT_CHARS:
                self._things[name] = (thing, None)
        elif (kind is list or kind is dict) and value is not None and _all_plain(value):
            self._things[name] = (thing, value)

    def keep(self, name: str, other: Told) -> None:
        """Take over a variable that has not changed."""
        self._things[name] = other._things[name]

    def forget(self) -> None:
        """Remember nothing: all is told again next time."""
        self._things.clear()

    def same(self, name: str, thing: Any) -> bool:
        """Whether a variable is what it was when it was told."""
        if name not in self._things:
            return False
        before, parts = self._things[name]
        if thing is not before:
            return False
        if parts is None:
            return True
        try:
            if len(thing) != len(parts) or not all(map(is_, thing, parts)):
                return False
            return type(thing) is list or all(map(is_, dict.values(thing), dict.values(parts)))
        except RuntimeError:  # a thread of the cell changes it just now
            return False


def _is_plain(thing: object) -> bool:
    kind = type(thing)
    return thing is None or kind is str or kind is int or kind is float or kind is bool or kind is bytes


def _all_plain(things: list[Any] | dict[str, Any]) -> bool:
    """Whether a copy that was made for JSON holds no other copies: its parts are texts, numbers, lists and dicts."""
    kinds = {*map(type, dict.values(things) if type(things) is dict else things)}
    return list not in kinds and dict not in kinds
