"""Text that code looks for at the wrong place of a line: at its beginning, or as a word by its number."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from .code_facts import nodes_of

FURTHER_ON = "No line starts with {text!r}. {found}"
OTHER_PLACE = "line.split()[{place}] is never {text!r}, but {values}. {found}"
FOUND_AT = "{text!r} is line.split()[{other}] of {times:,} lines, as in {line!r}."
FOUND_IN = "{text!r} is in {times:,} lines, as in {line!r}."
_SHOWN, _VALUES = 160, 4


def misplaced(code: str, lines: Sequence[str]) -> str | None:
    """Return where the text is that code looked for at another place; None where it looks at no place, or rightly."""
    beginnings, words = [*_beginnings(code)], [*_words(code)]
    rows = [line.split() for line in lines] if beginnings or words else []
    for text in beginnings:
        found = _found(text, lines, rows)
        if found and not any(line.startswith(text) for line in lines):
            return FURTHER_ON.format(text=text, found=found)
    for place, text in words:
        values = Counter(row[place] for row in rows if -len(row) <= place < len(row))
        if text in values or not values:
            continue
        listed = ", ".join(f"{value[:40]!r} ({number:,})" for value, number in values.most_common(_VALUES))
        return OTHER_PLACE.format(place=place, text=text, values=listed, found=_found(text, lines, rows)).strip()
    return None


def _found(text: str, lines: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    places = Counter(row.index(text) for row in rows if text in row)
    if places:
        other, times = places.most_common(1)[0]
        line = next(line for line, row in zip(lines, rows, strict=True) if text in row and row.index(text) == other)
        return FOUND_AT.format(text=text, other=other, times=times, line=line[:_SHOWN])
    having = [line for line in lines if text in line]
    return FOUND_IN.format(text=text, times=len(having), line=having[0][:_SHOWN]) if having else ""


def _beginnings(code: str) -> Iterator[str]:
    """Yield the texts that lines are to start with."""
    for node in nodes_of(code):
        match node:
            case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=str(text)), *_]) if text:
                yield text


def _words(code: str) -> Iterator[tuple[int, str]]:
    """Yield `3, "CBS"` for `line.split()[3] == "CBS"`."""
    for node in nodes_of(code):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
            continue
        sides = [node.left, *node.comparators]
        texts = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
        for side in sides:
            match side:
                case ast.Subscript(
                    value=ast.Call(func=ast.Attribute(attr="split"), args=[]), slice=ast.Constant(value=int(place))
                ) if texts:
                    yield place, texts[0]
