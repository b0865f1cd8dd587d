"""Small functions over long texts. This file is not imported: its source runs inside the kernel, beside the inputs."""

import re
import sys
import types
from typing import Any

_SHAPES_SOURCE = ""
"""The source of `rlm.shapes`, which is put here with this file: it is compiled when it is first needed."""

_shapes: dict[str, Any] = {}


def _text_of(value: Any) -> Any:
    """The text of a file; any other value as it is."""
    return value.text if hasattr(value, "__fspath__") and hasattr(value, "text") else value


def describe(value: Any) -> Any:
    """What a value looks like: kind, size, line shapes or columns with counts and examples. print(describe(x))"""
    value = _text_of(value)
    if not _shapes:
        exec(compile(_SHAPES_SOURCE, "<shapes>", "exec"), _shapes)
    return _shapes["describe"](value)


def SHOW_VARS() -> dict[str, str]:
    """The variables of the REPL, with their types."""
    names = vars(sys.modules["__main__"]).items()
    hidden = (types.FunctionType, types.ModuleType)
    return {name: type(value).__name__ for name, value in names if name[0] != "_" and not isinstance(value, hidden)}


def peek(text: Any, start: int = 0, length: int = 1000) -> str:
    """Part of a text: `length` characters from `start` on (negative: from the end)."""
    text = _text_of(text)
    if start < 0:
        start = max(0, len(text) + start)
    return str(text[start : start + length])


def search(text: Any, pattern: str, context: int = 100, limit: int = 20) -> list[dict[str, Any]]:
    """Where a regular expression matches: a list of {start, end, match, context}, at most `limit`."""
    text = _text_of(text)
    finder = text.finditer(pattern) if hasattr(text, "finditer") else re.finditer(pattern, text)
    found = []
    for match in finder:
        start, end = match.start(), match.end()
        around = str(text[max(0, start - context) : end + context])
        found.append({"start": start, "end": end, "match": match.group(), "context": around})
        if len(found) >= limit:
            break
    return found


def chunk(text: Any, size: int = 20000, overlap: int = 0) -> list[str]:
    """The text in pieces of at most `size` characters, cut at line ends where it can be; `overlap` repeats the end."""
    if size <= 0 or overlap < 0 or overlap >= size:
        raise ValueError("chunk(text, size, overlap): 0 <= overlap < size")
    text = _text_of(text)
    pieces: list[str] = []
    start, length = 0, len(text)
    while start < length:
        end = min(length, start + size)
        piece = str(text[start:end])
        cut = piece.rfind("\n") + 1
        if end < length and cut > size // 2 and cut > overlap:
            piece = piece[:cut]
        pieces.append(piece)
        start += len(piece)
        if start < length:
            start -= overlap
    return pieces


def count_tokens(text: Any) -> int:
    """About how many tokens a text is, for planning: no tokenizer is asked."""
    text = str(_text_of(text))
    words = len(re.findall(r"\w+|[^\w\s]", text))
    return max(len(text) // 4, words)
