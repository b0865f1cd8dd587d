"""Snapshots: what the variables of a session are, as data that JSON can carry.

A snapshot is taken inside the kernel, after untrusted code has run in the same interpreter. So it reads each object
without running any code that the object brings along (`reflection.py`), and patching `builtins` or `json` does not
change it.

Not covered: code in the same interpreter can reach into these modules and change them, install trace functions, audit
hooks and finalisers, or keep the interpreter busy from another thread. The host therefore treats a snapshot as hostile
data, and waits for it only so long.
"""

from __future__ import annotations

import builtins
import re
from itertools import islice
from json.encoder import encode_basestring
from math import isfinite
from sys import getrecursionlimit, setrecursionlimit
from time import monotonic
from typing import Any

from . import array_previews, previews, reflection, type_previews
from .snapshot_delta import LastSnapshot, fingerprint_of

globals()["__builtins__"] = dict(vars(builtins))  # see reflection.py

_DEPTH = 50  # how deep a value may be nested; the host's JSON reader has to follow
_INT_BITS = 332  # a hundred digits
_ONCE = 100  # how many numbers are written down before their room is looked at
_INT_MOST = (1 << _INT_BITS) - 1
_NAMES = 100_000  # how many a namespace is read for; more are only counted
_NAME_CHARS = 200
_FINGERPRINT_BYTES = 10_000  # how long the copy of what is nested may be, to be compared later
_VALUES_BYTES = 1 << 20  # what all values may take together: a snapshot fits into one message
_FRAMES = 300  # a snapshot may be taken on top of a cell that was stopped at the end of its stack
_find_surrogate = re.compile("[\ud800-\udfff]").search

type_previews.register_all()


def prime() -> None:
    """Take what is needed of the libraries that a cell could patch. Call it before untrusted code runs."""
    array_previews.prime()


class _NotPlain(Exception):
    """A value that JSON cannot carry as it is, or not within its budget."""


def snapshot(
    namespace: dict[str, object],
    *,
    skip: frozenset[str],
    deadline_seconds: float = 2.0,
    preview_chars: int = 200,
    value_bytes: int = 10_000,
    text_bytes: int | None = None,
    max_variables: int = 500,
    previous: LastSnapshot | None = None,
    current: LastSnapshot | None = None,
) -> dict[str, Any]:
    """Describe the variables of a namespace: `{"variables": [...], "omitted": int, "complete": bool}`.

    A variable has `name`, `type`, `size`, `preview` and `has_value`; where that is true, `value` is exactly what the
    variable holds (tuples as lists, numpy numbers as numbers), in at most `value_bytes` of compact UTF-8 JSON, a text
    in `text_bytes` if that is given; no more values come when all of them together have become large.
    `omitted` counts variables that are not listed: too many, out of time, or under a key that is not an ordinary name.
    `complete` is false when time ran out, or the namespace would not hold still.

    A variable that is unchanged since `previous` has `name` and `same` only; one that was in `previous` and holds
    something else now is `changed`, though no other field may show it. `current`, if given, is filled for the next
    snapshot.
    """
    limit = getrecursionlimit()
    setrecursionlimit(min(limit + _FRAMES, 2**31 - 1))
    try:
        named, omitted, complete = _pairs(namespace, skip, max_variables)
        texts = value_bytes if text_bytes is None else text_bytes
        describer = _Describer(
            monotonic() + deadline_seconds, preview_chars, value_bytes, texts, previous or LastSnapshot(), current
        )
        finished = describer.of(named)
        omitted += len(named) - len(describer.variables)
        return {"variables": describer.variables, "omitted": omitted, "complete": complete and finished}
    finally:
        try:
            setrecursionlimit(limit)
        except RecursionError:
            pass  # too deep for it; Python 3.12 and later say so, and the higher limit stays


def plain_value(thing: object, *, value_bytes: int, seconds: float = 0.5) -> Any:
    """Return a copy of plain data, as a snapshot has it. Raise where JSON cannot carry it in `value_bytes`."""
    array_previews.recognise_numpy()
    return _Copy(value_bytes, monotonic() + seconds).of(thing)


class _Describer:
    """Describes variables one by one, within the limits of one snapshot."""

    __slots__ = ("current", "deadline", "left", "preview_chars", "previous", "text_bytes", "value_bytes", "variables")

    def __init__(
        self,
        deadline: float,
        preview_chars: int,
        value_bytes: int,
        text_bytes: int,
        previous: LastSnapshot,
        current: LastSnapshot | None,
    ) -> None:
        self.deadline, self.preview_chars = deadline, preview_chars
        self.value_bytes, self.text_bytes = value_bytes, text_bytes
        self.previous, self.current = previous, current
        self.left = _VALUES_BYTES
        self.variables: list[dict[str, Any]] = []

    def of(self, named: list[tuple[str, Any]]) -> bool:
        """Describe these; return whether there was time for all."""
        array_previews.recognise_numpy()
        complete = clear = True
        for name, thing in named:
            if monotonic() > self.deadline:
                return False
            shown = reflection.text(name, _NAME_CHARS)
            clear = clear and shown == name
            if self.current is not None and self.previous.is_unchanged(name, thing):
                self.current.carry_over(name, self.previous)
                self.variables.append({"name": shown, "same": True})
            else:
                complete = self._describe(name, thing) and complete
        if not clear and self.current is not None:  # two names may read the same: the host cannot say which it knows
            self.current.clear()
        return complete

    def _describe(self, name: str, thing: object) -> bool:
        kind = type(thing)
        most = self.text_bytes if kind is str else self.value_bytes
        room = min(most, self.left)
        fingerprint = fingerprint_of(thing) if self.current is not None else None
        # What is nested is compared by its copy, whether or not that is told.
        nested = self.current is not None and fingerprint is None and (kind is list or kind is tuple or kind is dict)
        copy = _Copy(max(room, _FINGERPRINT_BYTES) if nested else room, self.deadline)
        variable, finished = _describe(name, thing, self.deadline, self.preview_chars, copy)
        if nested and variable["has_value"]:
            fingerprint = [variable["value"]]
            if copy.spent > room:
                del variable["value"]
                variable["has_value"] = False
        if variable["has_value"]:
            self.left -= copy.spent
        self.variables.append(variable)
        if self.current is not None and finished:
            if self.previous.is_changed(name, fingerprint):
                variable["changed"] = True
            if fingerprint is not None and (variable["has_value"] or room == most):
                self.current.add(name, thing, fingerprint, copied=nested)
        return finished


def _pairs(namespace: Any, skip: frozenset[str], most: int) -> tuple[list[tuple[str, Any]], int, bool]:
    """Return the variables to describe, how many more there are, and whether the namespace could be read to its end."""
    for _ in range(3):
        pairs: list[tuple[str, Any]] = []
        skipped = 0
        try:
            for key, thing in islice(dict.items(namespace), _NAMES):
                if type(key) is str and key in skip:
                    skipped += 1
                elif type(key) is str and 0 < len(key) <= _NAME_CHARS and len(pairs) < most:
                    pairs.append((key, thing))
        except RuntimeError:  # a thread of the cell has bound or deleted a name
            continue
        return pairs, max(0, dict.__len__(namespace) - skipped - len(pairs)), True
    return pairs, max(0, dict.__len__(namespace) - skipped - len(pairs)), False


def _describe(
    name: str, thing: object, deadline: float, preview_chars: int, copy: _Copy
) -> tuple[dict[str, Any], bool]:
    """Return one variable, and whether there was time for all of it."""
    variable: dict[str, Any] = {
        "name": reflection.text(name, _NAME_CHARS),
        "type": "?",
        "size": None,
        "preview": "?",
        "has_value": False,
    }
    finished = True
    try:
        variable["type"] = reflection.type_name(type(thing))
        variable["size"] = previews.size(thing)
        variable["preview"], finished = previews.preview(thing, preview_chars, deadline)
        variable["value"] = copy.of(thing)
        variable["has_value"] = True
    except previews.OutOfTime:
        finished = False
    except Exception:  # not plain, too large, too deep, changed by a thread meanwhile, or no stack left to look at it
        pass
    return variable, finished


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and _find_surrogate(text) is not None


class _Copy:
    """A copy of plain data being made: every byte of its JSON is paid for before it is made."""

    __slots__ = ("deadline", "depth", "room", "spent")

    def __init__(self, room: int, deadline: float) -> None:
        self.room, self.deadline, self.depth, self.spent = room, deadline, 0, 0

    def pay(self, count: int) -> None:
        """Take bytes from the budget."""
        self.room -= count
        self.spent += count
        if self.room < 0:
            raise _NotPlain
        if monotonic() > self.deadline:
            raise previews.OutOfTime

    def of(self, thing: Any) -> Any:
        """Return the same value, made of new objects of plain types."""
        kind = type(thing)
        if kind is str:
            return self.text(thing)
        if kind is list or kind is tuple or kind is dict:
            self.depth += 1
            if self.depth > _DEPTH:
                raise _NotPlain
            copy = self.mapping(thing) if kind is dict else self.sequence(thing)
            self.depth -= 1
            return copy
        if not (thing is None or kind is bool or kind is int or kind is float):
            thing = array_previews.number(thing)
            kind = type(thing)
            if thing is None:
                raise _NotPlain
        if kind is int and int.bit_length(thing) > _INT_BITS:
            raise _NotPlain
        if kind is complex or (kind is float and not isfinite(thing)):
            raise _NotPlain
        self.pay(4 if thing is None else len(repr(thing)))
        return thing

    def text(self, thing: str) -> str:
        """Return a text that UTF-8 can carry."""
        if len(thing) > self.room or _has_surrogates(thing):
            raise _NotPlain
        self.pay(len(encode_basestring(thing).encode("utf-8")))
        return thing

    def sequence(self, thing: Any) -> list[Any]:
        """Return a list or tuple, as a list."""
        count = len(thing)
        self.pay(2 + max(count - 1, 0))
        items = [*thing[:count]]
        return items if self.alike(items) else [self.of(item) for item in items]

    def alike(self, items: list[Any]) -> bool:
        """Pay for numbers or texts of one kind all at once, which is many times quicker; false where they are not."""
        kind = type(items[0]) if items else None
        if not (kind is int or kind is float or kind is str) or not reflection.all_are(kind, items):
            return False
        if kind is str:
            whole = "".join(items)
            if len(whole) > self.room or _has_surrogates(whole):
                raise _NotPlain
            self.pay(len(encode_basestring(whole).encode("utf-8")) - 2 + 2 * len(items))
            return True
        if kind is int and (max(items) > _INT_MOST or min(items) < -_INT_MOST):
            raise _NotPlain
        if kind is float and not all(map(isfinite, items)):
            raise _NotPlain
        for start in range(0, len(items), _ONCE):
            some = items[start : start + _ONCE]
            self.pay(len(repr(some)) - 2 * len(some))  # without brackets, commas and spaces
        return True

    def mapping(self, thing: dict[Any, Any]) -> dict[str, Any]:
        """Return a dict whose keys are all texts."""
        count = len(thing)
        self.pay(2 + max(2 * count - 1, 0))
        copy: dict[str, Any] = {}
        for key, value in islice(thing.items(), count):
            if type(key) is not str:
                raise _NotPlain
            copy[self.text(key)] = self.of(value)
        return copy
