"""Quotes: the place of a text in the inputs, exact or with white space and quotation marks made alike."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ..json_values import Path, pointer

_LONG_CHARS, _LONG_WORDS = 16, 3
_MAX_TEXTS = 10_000
_MAX_SEARCHED = 400_000_000
_MAX_NEAR, _MAX_NORMAL = 2_000_000, 2_000_000
_MAX_ALIKE, _MAX_QUOTE = 100_000_000, 2_000
_SINGLE = "\u2018\u2019\u201a\u201b\u2032`\u00b4"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_ALIKE = str.maketrans({**dict.fromkeys(_SINGLE, "'"), **dict.fromkeys(_DOUBLE, '"'), **dict.fromkeys(_DASHES, "-")})


@dataclass(frozen=True, slots=True)
class Quote:
    """A place in an input that holds a text."""

    input: str
    """The input, with the place of the text in it as a JSON pointer: `log`, `docs/3`."""

    start: int
    end: int
    line: int
    """The line that it begins in, from 1."""

    text: str
    """What is there: `text[start:end]` of the input."""

    exact: bool = True
    """Whether the text is there character by character."""

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be there by chance."""
        return len(self.text) >= _LONG_CHARS or len(self.text.split()) >= _LONG_WORDS


class Texts:
    """The texts among the inputs."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._texts = [(name, pointer(path)[1:], text) for name, path, text in _texts(inputs)]
        self._searched = 0
        self._normal: dict[int, tuple[str, list[int]]] = {}

    def find(self, value: str, inputs: Sequence[str] | None = None) -> Quote | None:
        """Return the first place where a text stands exactly, with no word going on around it."""
        if not any(char.isalnum() for char in value):
            return None
        for name, place, text in self._texts:
            if (inputs is None or name in inputs) and self._searched < _MAX_SEARCHED:
                self._searched += len(text)
                at = _find_words(text, value)
                if at >= 0:
                    return _quote(place, text, at, at + len(value))
        return None

    def look_up(self, quote: str) -> Quote | None:
        """Return the place of a quote: exactly, or else with white space and quotation marks made alike."""
        text = quote.strip()
        exact = self.find(text)
        if exact is not None or not any(char.isalnum() for char in text):
            return exact
        return self._find_alike(text) or self._find_normal(text)

    def _find_alike(self, text: str) -> Quote | None:
        """Return the first place of a text in which spaces, quotation marks and dashes may differ."""
        pattern = re.compile("".join(_pattern_of(piece) for piece in re.findall(r"\s+|\S", text[:_MAX_QUOTE])))
        for _, place, whole in self._texts:
            if self._searched > _MAX_ALIKE or len(text) > _MAX_QUOTE:
                return None
            self._searched += len(whole)
            for match in itertools.islice(pattern.finditer(whole), 100):
                start, end = match.span()
                if not (_joins(whole[start - 1 : start], text[0]) or _joins(whole[end : end + 1], text[-1])):
                    return _quote(place, whole, start, end, exact=False)
        return None

    def _find_normal(self, text: str) -> Quote | None:
        """Return the first place of a text, both in their normal form. Long inputs are not searched."""
        wanted = normalize(text)[0]
        for index, (_, place, whole) in enumerate(self._texts):
            if self._searched > _MAX_SEARCHED:
                return None
            if len(whole) > _MAX_NORMAL:
                continue
            self._searched += len(whole)
            if index not in self._normal:
                self._normal[index] = normalize(whole)
            normal, offsets = self._normal[index]
            at = _find_words(normal, wanted)
            if at >= 0 and wanted:
                return _quote(place, whole, offsets[at], offsets[at + len(wanted) - 1] + 1, exact=False)
        return None

    def nearest(self, quote: str) -> Quote | None:
        """Return the line, or lines, of the inputs that are most like a quote that is not there."""
        wanted = normalize(quote)[0]
        words = set(re.findall(r"\w+", wanted.lower()))
        best: tuple[float, Quote] | None = None
        room = _MAX_NEAR
        for _, place, text in self._texts:
            start = 0
            for line in text[:room].splitlines(keepends=True):
                shared = words & set(re.findall(r"\w+", line.lower()))
                if len(shared) * 2 >= len(words) > 0:
                    score = SequenceMatcher(None, wanted[:300], normalize(line)[0][:300], autojunk=False).ratio()
                    if best is None or score > best[0]:
                        best = (score, _quote(place, text, start, start + len(line.rstrip("\r\n")), exact=False))
                start += len(line)
            room -= len(text)
            if room <= 0:
                break
        return best[1] if best is not None else None


def normalize(text: str) -> tuple[str, list[int]]:
    """Return a text with single spaces and plain quotation marks, and the offset of each of its characters."""
    chars: list[str] = []
    offsets: list[int] = []
    for match in re.finditer(r"\s+|\S", text):
        piece = match[0]
        if piece.isspace():
            alike = " "
        elif piece.isascii():
            alike = piece
        else:
            alike = unicodedata.normalize("NFKC", piece).translate(_ALIKE)
        chars.append(alike)
        offsets += [match.start()] * len(alike)
    return "".join(chars), offsets


def _pattern_of(piece: str) -> str:
    """Return a pattern for white space, or for one character and those that look like it."""
    if piece.isspace():
        return r"\s+"
    for alike, plain in ((_SINGLE, "'"), (_DOUBLE, '"'), (_DASHES, "-")):
        if piece in alike or piece == plain:
            return f"[{re.escape(alike + plain)}]"
    return re.escape(piece)


def _find_words(text: str, value: str) -> int:
    """Return where a text begins in another, with no letter or digit directly around it; -1 if nowhere."""
    at = text.find(value)
    for _ in range(1000):
        if at < 0:
            return -1
        end = at + len(value)
        if not (_joins(text[at - 1 : at], value[0]) or _joins(text[end : end + 1], value[-1])):
            return at
        at = text.find(value, at + 1)
    return -1


def _joins(outer: str, inner: str) -> bool:
    return bool(outer) and outer.isalnum() and inner.isalnum()


def _quote(place: str, text: str, start: int, end: int, *, exact: bool = True) -> Quote:
    return Quote(place, start, end, text.count("\n", 0, start) + 1, text[start:end], exact)


def _texts(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Path, str]]:
    count = 0
    for name, whole in inputs.items():
        todo: list[tuple[Path, Any]] = [((name,), whole)]
        while todo and count < _MAX_TEXTS:
            path, value = todo.pop()
            if isinstance(value, str):
                count += 1
                yield name, path, value
            elif isinstance(value, Mapping):
                todo += [((*path, str(key)), inner) for key, inner in reversed(list(value.items()))]
            elif isinstance(value, list | tuple):
                todo += [((*path, index), inner) for index, inner in reversed(list(enumerate(value[:_MAX_TEXTS])))]
