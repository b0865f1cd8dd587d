"""The value of a cell's last expression, as text and, for notebooks, in the richer forms that it offers."""

from __future__ import annotations

import base64
import json
from typing import Any

_REPRESENTATIONS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
}
_NOTE_CHARS = 60  # for saying how much was cut, at the end


def bundle(value: Any, *, rich: bool, max_bytes: int) -> dict[str, Any]:
    """A MIME bundle of the value; what is longer than `max_bytes` is cut (text) or left out (the rest)."""
    data: dict[str, Any] = {"text/plain": _cut(_text(value), max_bytes)}
    if not rich or isinstance(value, type):
        return data
    whole = getattr(value, "_repr_mimebundle_", None)
    if callable(whole):
        made = whole()
        data |= made[0] if isinstance(made, tuple) else made or {}
    for mime, name in _REPRESENTATIONS.items():
        represent = getattr(value, name, None)
        if mime in data or not callable(represent):
            continue
        made = represent()
        if isinstance(made, bytes):
            made = base64.b64encode(made).decode()
        if isinstance(made, str) and len(made) <= max_bytes:
            data[mime] = made
    return data


def as_json(value: Any, max_bytes: int) -> str | None:
    """The value as JSON text; None if it has no such form, or one that is too long."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= max_bytes else None


def _text(value: Any) -> str:
    text = repr(value)
    # A subclass of str may lie about its length; from here on it is a plain str.
    return text if type(text) is str else str.__str__(text)


def _cut(text: str, max_bytes: int) -> str:
    if not text.isascii():
        kept = text.encode("utf-8", "surrogatepass")[:max_bytes].decode("utf-8", "ignore")
    else:
        kept = text[:max_bytes]
    if len(kept) == len(text):
        return text
    kept = kept[: max(0, len(kept) - _NOTE_CHARS)]
    return f"{kept}… ({len(text) - len(kept):,} more characters)"
