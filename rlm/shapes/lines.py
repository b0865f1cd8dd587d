"""The commonest shapes of the lines of a text, counted in one pass: lines that are the same without their digits first,
then those that differ in words that few lines have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .shape import LineShape

BLOCK_CHARS = 2_000_000
MAX_SKELETONS = 20_000
"""Lines may differ in so many ways, besides digits, for all of them to be counted. Otherwise a sample is."""

SAMPLE_BLOCKS, SAMPLE_CHARS = 64, 24_000
_RARE = 150
"""A word is a constant part if it is in one line of so many at least: no shape that is listed is rarer."""

_TOKEN_CHARS = 400
"""Of a line, so much is compared."""

_TOKEN = re.compile(rb"[^\s=,;:()\[\]{}<>\"'|/\\@#*]+|[=,;:()\[\]{}<>\"'|/\\@#*]")
_DIGITS = b"0123456789"
_CALENDAR = frozenset(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec Mon Tue Wed Thu Fri Sat Sun".split())
_IDENTIFIER = re.compile(rb"(?:[A-Za-z]{0,2}[-_.~])+[A-Za-z]{0,2}|(?:[a-f]*-)+[a-f]*|x[a-f]*|[a-f]{1,3}")
"""What identifiers, dates and hexadecimal numbers are without their digits."""

_WORDS = frozenset([b"a", b"be", b"add", b"bad", b"fed"])
_JOINTS = frozenset([b"/", b":", b"\\", b",", b"=", b"@"])


def blocks(text: Any) -> Iterator[bytes]:
    """Yield the text in pieces that end with a line, as UTF-8. Only a line that is longer than a piece is cut."""
    start, length = 0, len(text)
    while start < length:
        piece = text[start : start + BLOCK_CHARS]
        if start + BLOCK_CHARS < length:
            piece = piece[: piece.rfind("\n") + 1] or piece
        start += len(piece)
        yield piece.encode("utf-8", "surrogatepass")


def line_shapes(text: Any, most: int = 24) -> tuple[tuple[LineShape, ...], int, str]:
    """Return the commonest shapes, how many lines have none of them, and what was read if that is not everything.

    Empty lines are not counted. Memory is bounded: where too many lines differ, evenly spaced parts are read.
    """
    counts: Counter[bytes] = Counter()
    examples: dict[bytes, bytes] = {}
    for block in blocks(text):
        _count(block, counts, examples)
        if len(counts) > MAX_SKELETONS:
            return _sampled(text, most)
    return (*_group(counts, examples, most), "")


def _sampled(text: Any, most: int) -> tuple[tuple[LineShape, ...], int, str]:
    counts: Counter[bytes] = Counter()
    examples: dict[bytes, bytes] = {}
    read, step = 0, max(1, len(text) // SAMPLE_BLOCKS)
    for start in range(0, len(text), step):
        piece = text[start : start + min(step, SAMPLE_CHARS)]
        first = piece.find("\n") + 1 if start else 0
        piece = piece[first : piece.rfind("\n") + 1]
        read += piece.count("\n")
        _count(piece.encode("utf-8", "surrogatepass"), counts, examples)
    shapes, other = _group(counts, examples, most)
    return shapes, other, f"counted in a sample of {read:,} lines, at even distances"


def _count(block: bytes, counts: Counter[bytes], examples: dict[bytes, bytes]) -> None:
    """Count the lines of a block by what they are without digits; remember the first line of each kind."""
    skeletons = block.translate(None, _DIGITS).split(b"\n")
    before = len(counts)
    if block.endswith(b"\n"):
        skeletons.pop()
    counts.update(skeletons)
    if len(counts) > before:
        lines = block.split(b"\n")
        for skeleton, line in zip(skeletons, lines, strict=False):
            if skeleton not in examples:
                examples[skeleton] = line[:2000]


def _group(counts: Counter[bytes], examples: dict[bytes, bytes], most: int) -> tuple[tuple[LineShape, ...], int]:
    tokens = {skeleton: _TOKEN.findall(skeleton[:_TOKEN_CHARS]) for skeleton in counts if skeleton.strip()}
    weights: Counter[bytes] = Counter()
    total = 0
    for skeleton, parts in tokens.items():
        number = counts[skeleton]
        total += number
        for token in set(parts):
            weights[token] += number
    least = max(2, total // _RARE)
    identifiers = {token for token in weights if _IDENTIFIER.fullmatch(token)} - _WORDS
    constant = {token for token, weight in weights.items() if weight >= least} - identifiers - _CALENDAR
    groups: Counter[tuple[bytes, ...]] = Counter()
    first: dict[tuple[bytes, ...], bytes] = {}
    for skeleton, parts in tokens.items():
        key = _pattern(parts, constant, identifiers)
        groups[key] += counts[skeleton]
        first.setdefault(key, examples.get(skeleton, skeleton))
    shapes: list[LineShape] = []
    shown = 0
    for key, number in groups.most_common():
        if len(shapes) == most or number < 2:
            break
        if _is_common(key):
            shapes.append(LineShape(number, _marked(first[key], constant), _decoded(first[key])))
            shown += number
    return tuple(shapes), total - shown


def _pattern(parts: Iterable[bytes], constant: set[bytes], identifiers: set[bytes]) -> tuple[bytes, ...]:
    """Return the parts with a star for each variable word; stars with a joint between them are one.

    Identifiers leave no trace, as numbers do.
    """
    key: list[bytes] = []
    for part in parts:
        if part in constant:
            key.append(part)
        elif _IDENTIFIER.fullmatch(part) or key[-1:] == [b"*"]:
            continue
        elif key[-2:-1] == [b"*"] and key[-1] in _JOINTS:
            key.pop()
        else:
            key.append(b"*")
    return tuple(key)


def _is_common(key: tuple[bytes, ...]) -> bool:
    """Return whether the constant parts of a shape are most of it."""
    words = sum(part != b"*" and len(part) > 1 for part in key)
    return words >= key.count(b"*") or b"*" not in key


def _marked(line: bytes, constant: set[bytes]) -> str:
    def mark(found: re.Match[bytes]) -> bytes:
        token = found[0]
        bare = token.translate(None, _DIGITS)
        constant_part = bare in constant or not bare.strip(b".-_+")
        return re.sub(rb"\d+", b"<n>", token) if constant_part else b"<*>"

    return _decoded(re.sub(rb"<\*>(?:[/:\\,=@]?<\*>)+", b"<*>", _TOKEN.sub(mark, line[:_TOKEN_CHARS])))


def _decoded(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r")
    return "".join(char if char.isprintable() or char == "\t" else ascii(char)[1:-1] for char in text)
