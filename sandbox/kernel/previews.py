"""Previews: one line about any object, in bounded time and room, without running its code.

An object is drawn by the nearest real ancestor that is in the table, with that ancestor's own C methods. An instance of
a subclass is drawn as its base value inside the subclass's name: `Money(5)`. The table is filled by `type_previews.py`
and `array_previews.py`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from enum import Enum
from time import monotonic
from typing import Any

from . import reflection

globals()["__builtins__"] = dict(vars(builtins))  # see reflection.py

_DEPTH = 5


class OutOfTime(Exception):
    """The deadline of the snapshot has passed."""


class Full(Exception):
    """The preview has no room left."""


class Sketch:
    """A preview being written: text is added until the room is used up."""

    __slots__ = ("deadline", "depth", "parts", "room")

    def __init__(self, room: int, deadline: float) -> None:
        self.room, self.deadline = room, deadline
        self.parts: list[str] = []
        self.depth = 0

    def add(self, text: str) -> None:
        """Write text; raise Full when it does not fit."""
        if monotonic() > self.deadline:
            raise OutOfTime
        self.parts.append(text[: self.room])
        self.room -= len(text)
        if self.room < 0:
            self.room = 0
            raise Full

    def show(self, thing: Any) -> None:
        """Write any object."""
        kind, mark = type(thing), len(self.parts)
        if self.depth >= _DEPTH and not (kind is str or kind is int or kind is float):
            return self.add("…")
        self.depth += 1
        try:
            ancestor, draw, wrapped = _find(kind)
            if wrapped and ancestor is not kind:
                self.add(reflection.short_name(kind) + "(")
                draw(self, thing)
                self.add(")")
            else:
                draw(self, thing)
        except (Full, OutOfTime):
            raise
        except Exception:  # changed by a thread meanwhile, or broken on purpose: its name is all there is to say
            del self.parts[mark:]
            self.add(f"<{reflection.short_name(kind)}>")
        finally:
            self.depth -= 1

    def series(self, things: Iterable[Any], draw: Callable[[Any], None] | None = None) -> None:
        """Write several objects with commas between."""
        for number, thing in enumerate(things):
            if number:
                self.add(", ")
            (draw or self.show)(thing)

    def field(self, item: tuple[str, Any]) -> None:
        """Write `name=value`."""
        self.add(item[0] + "=")
        self.show(item[1])

    def entry(self, item: tuple[Any, Any]) -> None:
        """Write `key: value`."""
        self.show(item[0])
        self.add(": ")
        self.show(item[1])


Draw = Callable[[Sketch, Any], None]
Measure = Callable[[Any], int | list[int] | None]
_draws: dict[int, tuple[type, Draw, bool]] = {}  # by the id of a class: a lookup by the class could run its `__hash__`
_measures: dict[int, Measure] = {}


def register(kind: type, draw: Draw, measure: Measure | None = None, *, wrapped: bool = True) -> None:
    """Draw and measure instances of a class and its subclasses; the latter are wrapped in their own class's name."""
    _draws[id(kind)] = (kind, draw, wrapped)
    if measure is not None:
        _measures[id(kind)] = measure


def _find(kind: type) -> tuple[type, Draw, bool]:
    if (exactly := _draws.get(id(kind))) is not None:
        return exactly
    ancestors = reflection.mro(kind)
    if any(ancestor is Enum for ancestor in ancestors):  # before the int or str that a member also is
        return _draws[id(Enum)]
    return next(_draws[id(ancestor)] for ancestor in ancestors if id(ancestor) in _draws)


def preview(thing: object, chars: int, deadline: float) -> tuple[str, bool]:
    """Return one line about an object, and whether there was time to finish it."""
    sketch, end, finished = Sketch(max(chars - 1, 0), deadline), "", True
    try:
        sketch.show(thing)
    except Full:
        end = "…"
    except OutOfTime:
        end, finished = "…", False
    return reflection.text("".join(sketch.parts) + end, chars), finished


def size(thing: object) -> int | list[int] | None:
    """Return the length of a container or a text, the shape of an array, None for anything else."""
    for ancestor in reflection.mro(type(thing)):
        if measure := _measures.get(id(ancestor)):
            try:
                return measure(thing)
            except Exception:  # a range longer than any list, an array taken apart
                return None
    return None
