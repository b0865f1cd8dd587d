"""The value of a cell's last expression, as text and as JSON. What notebooks show is in `shell.py`."""

from __future__ import annotations

import json
from typing import Any

_NOTE_CHARS = 60  # for saying how much was cut, at the end


def as_text(value: Any, max_bytes: int) -> str:
    """Return the `repr` of the value, cut to `max_bytes`."""
    text = repr(value)
    # A subclass of str may lie about its length; from here on it is a plain str.
    return cut(text if type(text) is str else str.__str__(text), max_bytes)


def as_json(value: Any, max_bytes: int) -> str | None:
    """Return the value as JSON text; None if it has no such form, or one that is too long."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= max_bytes else None


def cut(text: str, max_bytes: int) -> str:
    """Return the text; one that is longer ends in how much was left out."""
    if not text.isascii():
        kept = text.encode("utf-8", "surrogatepass")[:max_bytes].decode("utf-8", "ignore")
    else:
        kept = text[:max_bytes]
    if len(kept) == len(text):
        return text
    kept = kept[: max(0, len(kept) - _NOTE_CHARS)]
    return f"{kept}… ({len(text) - len(kept):,} more characters)"
