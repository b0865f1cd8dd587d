"""What the host has been told about the variables: what has not changed since is not told again.

Only what can be compared without running any code of an object is remembered: texts, numbers, and lists and dicts of
nothing but these. The rest is described anew each time.
"""

from __future__ import annotations

import builtins
from itertools import repeat
from operator import is_
from typing import Any

globals()["__builtins__"] = dict(vars(builtins))  # see anatomy.py

_TEXT_CHARS = 1 << 16  # a longer text is not kept from being freed
_PARTS = 10_000  # a longer list would take longer to compare than to describe


class Told:
    """The variables of the last account, which has a number: the host names the last one it has read."""

    __slots__ = ("_things", "number")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._things: dict[str, tuple[Any, Any]] = {}

    def add(self, name: str, thing: Any, described: dict[str, Any]) -> None:
        """Remember a variable as it was described, if it can be compared later."""
        kind = type(thing)
        if _is_plain(kind):
            if not (kind is str or kind is bytes) or len(thing) <= _TEXT_CHARS:
                self._things[name] = (thing, None)
        elif (kind is list or kind is dict) and (parts := _parts(thing, described.get("value"))) is not None:
            self._things[name] = (thing, parts)

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

    def differs(self, name: str, other: Told) -> bool:
        """Whether a list or dict has other parts than in another account, which its description need not show."""
        parts, before = self._things.get(name, (None, None))[1], other._things.get(name, (None, None))[1]
        return parts is not None and before is not None and bool(parts != before)


def _is_plain(kind: type) -> bool:
    return kind is str or kind is int or kind is float or kind is bool or kind is bytes or kind is type(None)


def _parts(things: list[Any] | dict[Any, Any], value: Any) -> Any:
    """The parts of a list or dict, to compare with later; None where they are not all plain.

    `value` is the copy that was made for JSON, if one was: what stands in it is plain, but for other copies. Parts that
    are not in such a copy must be alike.
    """
    if value is not None:
        kinds = {*map(type, dict.values(value) if type(value) is dict else value)}
        return None if list in kinds or dict in kinds else value
    if len(things) > _PARTS:
        return None
    try:
        parts: Any = dict(things) if type(things) is dict else [*things]
    except RuntimeError:  # a thread of the cell changes it just now
        return None
    sides = (dict.keys(parts), dict.values(parts)) if type(parts) is dict else (parts,)
    return parts if all(map(_alike, sides)) else None


def _alike(items: Any) -> bool:
    """Whether all items are of one plain kind."""
    kind = next(map(type, items), str)
    return _is_plain(kind) and all(map(is_, map(type, items), repeat(kind)))
