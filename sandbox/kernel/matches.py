"""Patterns over a `TextView`, a window of the text at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol


class Text(Protocol):
    """What is cut into windows."""

    def __getitem__(self, key: slice, /) -> str: ...


class TextMatch:
    """A match of a pattern: as `re.Match`, with positions in the whole text."""

    __slots__ = ("_match", "_origin")

    def __init__(self, match: re.Match[str], origin: int) -> None:
        self._match, self._origin = match, origin

    def __getitem__(self, group: int | str) -> str | Any:
        return self._match[group]

    def __getattr__(self, name: str) -> Any:
        if name in ("expand", "group", "groupdict", "groups", "lastgroup", "lastindex", "re"):
            return getattr(self._match, name)
        raise AttributeError(f"'TextMatch' object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<TextMatch span={self.span()}, match={self._match[0]!r}>"

    def start(self, group: int | str = 0, /) -> int:
        """Return where a group begins in the text; -1 if it took no part."""
        return self.span(group)[0]

    def end(self, group: int | str = 0, /) -> int:
        """Return where a group ends in the text; -1 if it took no part."""
        return self.span(group)[1]

    def span(self, group: int | str = 0, /) -> tuple[int, int]:
        """Return where a group begins and ends in the text."""
        start, end = self._match.span(group)
        return (start, end) if start < 0 else (start + self._origin, end + self._origin)


def finditer(text: Text, pattern: re.Pattern[str], longest: int, stride: int) -> Iterator[TextMatch]:
    """Yield the matches of a pattern in a text; matches that begin in one stride are found in a window around it."""
    position, length = 0, None
    while length is None or position <= length:
        given, limit, growing = 0, position, True
        width = stride
        while growing:
            growing, limit = False, position + width
            origin, end = max(0, position - longest), limit + 2 * longest
            window = text[origin:end]
            if len(window) < end - origin:
                length = origin + len(window)
            after = limit
            for match in islice(pattern.finditer(window, position - origin), given, None):
                if origin + match.start() >= limit:
                    break
                if length is None and origin + match.end() > limit + longest:
                    growing, width = True, 2 * width  # it may have been cut short: the same with more of the text
                    break
                given += 1
                after = max(limit, origin + match.end())
                yield TextMatch(match, origin)
        position = after
