"""`TextView`: a large text in memory that is not ours to copy, read like a `str` and decoded only where it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import index as whole
from typing import Any

from . import matches
from .positions import CODEC, Positions


class TextView:
    """A read-only text that lies as UTF-8 in a memory map or another buffer.

    It reads like the `str` it stands for: characters are counted, sliced, found and compared alike. Slices are `str`.
    `lines()`, `search()` and `finditer()` go through the text piece by piece. Every other method of `str` works too,
    but decodes the whole text first, as do `str(view)` and `hash(view)`. For `re` functions and others that insist on
    a real `str`, pass a slice, a line, or `str(view)`.
    """

    __slots__ = ("_at", "_hash", "_size")

    def __init__(self, buffer: Any, *, step: int = 1 << 16, ascii_only: bool = False) -> None:
        self._at = Positions(buffer, step, ascii_only=ascii_only)
        self._size = len(self._at.buffer)
        self._hash: int | None = None

    # Reading.

    def __len__(self) -> int:
        return self._at.length()

    def __bool__(self) -> bool:
        return self._size > 0

    def __getitem__(self, key: Any) -> str:
        if not isinstance(key, slice):
            position = whole(key)
            position += len(self) if position < 0 else 0
            if position < 0 or self._at.reach(position + 1) <= position:
                raise IndexError("string index out of range")
            return self._at.character(position)
        if key.step is None or whole(key.step) == 1:
            limits = self._limits(key.start, key.stop)
            return "" if limits is None else self._at.text(*limits)
        span = range(*key.indices(len(self)))
        return self[min(span) : max(span) + 1][:: span.step] if span else ""

    def _limits(self, start: Any, stop: Any) -> tuple[int, int] | None:
        """Return the bytes between two positions, as for `str.find`; None where `start` is past `stop` or the end."""
        first, last = 0 if start is None else whole(start), None if stop is None else whole(stop)
        if first < 0:
            first = max(0, first + len(self))
        if first > self._at.reach(first):
            return None
        if last is None:
            return self._at.byte_of(first), self._size
        last = max(0, last + len(self)) if last < 0 else self._at.reach(last)
        return None if last < first else (self._at.byte_of(first), self._at.byte_of(last))

    def __iter__(self) -> Iterator[str]:
        for piece in self._at.pieces():
            yield from piece

    def lines(self, keepends: bool = False) -> Iterator[str]:
        """Yield what `splitlines` gives, line by line, without decoding the whole text."""
        start, size = 0, self._at.step
        while start < self._size:
            stop = self._at.boundary(start + size)
            text = self._at.text(start, stop)
            if stop < self._size:  # the last line may go on, and a carriage return may have a line feed coming
                text = text[: len(text) - len(text.splitlines(keepends=True)[-1])]
            if not text:
                size *= 2
                continue
            yield from text.splitlines(keepends)
            start, size = start + len(text.encode(*CODEC)), self._at.step

    def __str__(self) -> str:
        return self._at.text(0, self._size)

    def __repr__(self) -> str:
        return f"<TextView {len(self):,} chars: {self[:40]!r}{'…' if len(self) > 40 else ''}>"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(str, name):
            raise AttributeError(f"'TextView' object has no attribute {name!r}")
        return getattr(str(self), name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name for name in dir(str) if not name.startswith("__"))})

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)

    # Comparing.

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TextView):
            return self._size == other._size and self._at.buffer == other._at.buffer
        if not isinstance(other, str):
            return NotImplemented
        start = 0
        for piece in self._at.pieces():
            if other[start : start + len(piece)] != piece:
                return False
            start += len(piece)
        return start == len(other)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(str(self))
        return self._hash

    def startswith(self, prefix: Any, start: int | None = None, end: int | None = None, /) -> bool:
        """As `str.startswith`."""
        return self._borders(prefix, start, end, at_end=False)

    def endswith(self, suffix: Any, start: int | None = None, end: int | None = None, /) -> bool:
        """As `str.endswith`."""
        return self._borders(suffix, start, end, at_end=True)

    def _borders(self, affix: Any, start: int | None, end: int | None, *, at_end: bool) -> bool:
        limits = self._limits(start, end)
        for needle in [_encoded(text) for text in (affix if isinstance(affix, tuple) else (affix,))]:
            if limits is not None and len(needle) <= limits[1] - limits[0]:
                begin = limits[1] - len(needle) if at_end else limits[0]
                if self._at.raw(begin, begin + len(needle)) == needle:
                    return True
        return False

    # Finding. A buffer cannot be searched fast where it lies, so blocks of it are copied and searched.

    def find(self, sub: str, start: int | None = None, end: int | None = None, /) -> int:
        """As `str.find`."""
        needle, limits = _encoded(sub), self._limits(start, end)
        hit = -1 if limits is None else self._first(needle, *limits)
        return hit if hit < 0 else self._at.char_of(hit)

    def rfind(self, sub: str, start: int | None = None, end: int | None = None, /) -> int:
        """As `str.rfind`."""
        needle, limits = _encoded(sub), self._limits(start, end)
        low, high = limits or (0, -1)
        while high - low >= len(needle):
            begin = max(low, high - self._block(needle))
            hit = self._at.raw(begin, high).rfind(needle)
            if hit >= 0:
                return self._at.char_of(begin + hit)
            high = -1 if begin == low else begin + len(needle) - 1
        return -1

    def index(self, sub: str, start: int | None = None, end: int | None = None, /) -> int:
        """As `str.index`."""
        return _found(self.find(sub, start, end))

    def rindex(self, sub: str, start: int | None = None, end: int | None = None, /) -> int:
        """As `str.rindex`."""
        return _found(self.rfind(sub, start, end))

    def __contains__(self, sub: str) -> bool:
        return self._first(_encoded(sub), 0, self._size) >= 0

    def count(self, sub: str, start: int | None = None, end: int | None = None, /) -> int:
        """As `str.count`."""
        needle, limits = _encoded(sub), self._limits(start, end)
        if limits is None:
            return 0
        low, high = limits
        if not needle:
            return self._at.char_of(high) - self._at.char_of(low) + 1
        size, total = self._block(needle), 0
        if not _overlaps_itself(needle):  # then each occurrence is counted where it begins
            for begin in range(low, high, size):
                total += self._at.raw(begin, min(high, begin + size + len(needle) - 1)).count(needle)
            return total
        while (hit := self._first(needle, low, high)) >= 0:
            total, low = total + 1, hit + len(needle)
        return total

    def _block(self, needle: bytes) -> int:
        return max(16 * self._at.step, 2 * len(needle))

    def _first(self, needle: bytes, low: int, high: int) -> int:
        """Return the first byte position of a needle, or -1."""
        size = self._at.step + len(needle)  # a near hit costs little; the next blocks are larger
        while high - low >= len(needle):
            stop = min(high, low + size)
            hit = self._at.raw(low, stop).find(needle)
            if hit >= 0 or stop == high:
                return low + hit if hit >= 0 else -1
            low, size = stop - len(needle) + 1, self._block(needle)
        return -1

    def search(
        self, pattern: str | re.Pattern[str], flags: int = 0, *, longest: int = 1 << 20
    ) -> matches.TextMatch | None:
        """As `re.search(pattern, text)`; see `finditer`."""
        return next(self.finditer(pattern, flags, longest=longest), None)

    def finditer(
        self, pattern: str | re.Pattern[str], flags: int = 0, *, longest: int = 1 << 20
    ) -> Iterator[matches.TextMatch]:
        """As `re.finditer(pattern, text)`, a window of the text at a time.

        What the pattern has to read to know a match may be `longest` characters long. One that takes more
        (`BEGIN.*?END` far apart) may be missed, or found from a later beginning on: raise `longest` then.
        """
        return matches.finditer(self, re.compile(pattern, flags), longest, max(16 * self._at.step, 4 * longest))


def _encoded(sub: object) -> bytes:
    if isinstance(sub, TextView):
        return sub._at.raw(0, sub._size)
    if not isinstance(sub, str):
        raise TypeError(f"must be str, not {type(sub).__name__}")
    return sub.encode(*CODEC)


def _overlaps_itself(needle: bytes) -> bool:
    """Whether it ends as it begins, so that two occurrences can share bytes. A long one is not looked at that long."""
    return len(needle) > 1000 or any(needle.endswith(needle[:length]) for length in range(1, len(needle)))


def _found(position: int) -> int:
    if position < 0:
        raise ValueError("substring not found")
    return position
