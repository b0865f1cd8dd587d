"""Change detection between two snapshots, so that an unchanged variable is described only once.

Each variable is kept with a fingerprint: plain values that can be compared without running any code of an object. The
fingerprint of a text or a number is the object itself; that of a flat list, tuple or dict is its items; that of nested
data is the copy that was made for JSON, which has to be made again to be compared.
"""

from __future__ import annotations

import builtins
from itertools import chain
from operator import is_
from typing import Any

from . import reflection

globals()["__builtins__"] = dict(vars(builtins))  # see reflection.py

_PARTS = 10_000  # a longer list would take longer to compare than to describe
_BYTES = 1 << 16  # of the texts or numbers in a variable: a fingerprint keeps them from being freed
_INT_MOST = 1 << 332

Fingerprint = list[Any]


class LastSnapshot:
    """The variables of the last snapshot and its number. The host names the last snapshot that it has read."""

    __slots__ = ("_variables", "number")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._variables: dict[str, tuple[Any, Fingerprint, bool]] = {}

    def add(self, name: str, thing: Any, fingerprint: Fingerprint, *, copied: bool) -> None:
        """Keep a variable; `copied` if the fingerprint does not hold the object's own items."""
        self._variables[name] = (thing, fingerprint, copied)

    def carry_over(self, name: str, previous: LastSnapshot) -> None:
        """Keep a variable that has not changed since the previous snapshot."""
        self._variables[name] = previous._variables[name]

    def clear(self) -> None:
        """Drop every variable: the next snapshot describes all of them."""
        self._variables.clear()

    def is_unchanged(self, name: str, thing: Any) -> bool:
        """Return whether a variable is certainly as it was; only cheap comparisons are made."""
        before, fingerprint, copied = self._variables.get(name, (self, [], True))
        if copied or thing is not before:
            return False
        kind = type(thing)
        if _is_plain(kind):
            return True
        parts = chain(thing, dict.values(thing)) if kind is dict else thing
        try:
            return len(thing) * (2 if kind is dict else 1) == len(fingerprint) and all(map(is_, parts, fingerprint))
        except RuntimeError:  # a thread of the cell changes it just now
            return False

    def is_changed(self, name: str, fingerprint: Fingerprint | None) -> bool:
        """Return whether a variable of this snapshot has changed. One without a fingerprint counts as changed."""
        if name not in self._variables:
            return False
        before = self._variables[name][1]
        if fingerprint is None or len(fingerprint) != len(before):
            return True
        if not all(map(is_, map(type, fingerprint), map(type, before))):
            return True
        return bool(fingerprint != before)


def fingerprint_of(thing: Any) -> Fingerprint | None:
    """Return the fingerprint of a plain value or a flat collection of these; None for anything else or too large."""
    kind = type(thing)
    if _is_plain(kind):
        sides: tuple[Fingerprint, ...] = ([thing],)
    elif not (kind is list or kind is tuple or kind is dict) or len(thing) > _PARTS:
        return None
    else:
        try:
            sides = ([*thing], [*dict.values(thing)]) if kind is dict else ([*thing],)
        except RuntimeError:  # a thread of the cell changes it just now
            return None
    return [*chain(*sides)] if all(map(_are_plain, sides)) else None


def _is_plain(kind: type) -> bool:
    return kind is str or kind is int or kind is float or kind is bool or kind is bytes or kind is type(None)


def _are_plain(items: Fingerprint) -> bool:
    """Return whether all items are plain and together small enough to be kept."""
    kind = type(items[0]) if items else str
    if reflection.all_are(kind, items):  # mostly they are of one kind, and this is many times quicker
        if kind is str or kind is bytes:
            return sum(map(len, items)) <= _BYTES
        if kind is int:
            return bool(max(items) < _INT_MOST and min(items) > -_INT_MOST)
        return _is_plain(kind)
    size = 0
    for item in items:
        kind = type(item)
        if not _is_plain(kind):
            return False
        size += len(item) if kind is str or kind is bytes else int.bit_length(item) // 8 if kind is int else 0
        if size > _BYTES:
            return False
    return True
