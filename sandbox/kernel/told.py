"""What the host has been told about the variables: what has not changed since is not told again.

Each variable is remembered with a mark: plain values that can be compared without running any code of an object. That
is a text or a number itself, and the parts of a list, tuple or dict of nothing but these. Of what is nested it is the
copy that was made for JSON, which can be compared, though only by making another one.
"""

from __future__ import annotations

import builtins
from itertools import chain
from operator import is_
from typing import Any

from . import anatomy

globals()["__builtins__"] = dict(vars(builtins))  # see anatomy.py

_PARTS = 10_000  # a longer list would take longer to compare than to describe
_BYTES = 1 << 16  # of the texts or numbers in a variable: what is remembered is kept from being freed
_INT_MOST = 1 << 332

Mark = list[Any]


class Told:
    """The variables of the last account, which has a number: the host names the last one it has read."""

    __slots__ = ("_marks", "number")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._marks: dict[str, tuple[Any, Mark, bool]] = {}

    def add(self, name: str, thing: Any, mark: Mark, *, copied: bool) -> None:
        """Remember a variable; `copied` if the mark does not hold the thing's own parts."""
        self._marks[name] = (thing, mark, copied)

    def keep(self, name: str, other: Told) -> None:
        """Take over a variable that has not changed."""
        self._marks[name] = other._marks[name]

    def forget(self) -> None:
        """Remember nothing: all is told again next time."""
        self._marks.clear()

    def same(self, name: str, thing: Any) -> bool:
        """Whether a variable is what it was when it was told."""
        before, mark, copied = self._marks.get(name, (self, [], True))
        if copied or thing is not before:
            return False
        kind = type(thing)
        if _is_plain(kind):
            return True
        parts = chain(thing, dict.values(thing)) if kind is dict else thing
        try:
            return len(thing) * (2 if kind is dict else 1) == len(mark) and all(map(is_, parts, mark))
        except RuntimeError:  # a thread of the cell changes it just now
            return False

    def differs(self, name: str, mark: Mark | None) -> bool:
        """Whether a variable that was remembered holds something else now; it does if it can be marked no more."""
        if name not in self._marks:
            return False
        before = self._marks[name][1]
        if mark is None or len(mark) != len(before) or not all(map(is_, map(type, mark), map(type, before))):
            return True
        return bool(mark != before)


def mark_of(thing: Any) -> Mark | None:
    """The mark of a plain thing or a collection of these, as far as it can be kept; None where there is none."""
    kind = type(thing)
    if _is_plain(kind):
        sides: tuple[Mark, ...] = ([thing],)
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


def _are_plain(items: Mark) -> bool:
    """Whether all items are plain, and take no more room than what is remembered may take."""
    kind = type(items[0]) if items else str
    if anatomy.all_are(kind, items):  # mostly they are of one kind, and this is many times quicker
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
