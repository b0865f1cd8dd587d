"""Text for people and models: shortened, without control characters, fenced; numbers with their noun or unit."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable

# What could move a cursor, ring, recolor or reverse the text of a terminal, or is no character at all.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def shorten(text: str, max_chars: int) -> str:
    """Return the text in at most `max_chars` characters: as it is, or its beginning and an ellipsis."""
    return text if len(text) <= max_chars else text[: max(0, max_chars - 1)] + "…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 call`, `1,200 calls`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def dollars(usd: float) -> str:
    """Return an amount: `$1.20`, `$0.0042`, `$0.00025`. Two digits are left of the smallest ones.

    The page writes amounts in the same way (`viewer/static/lib/format.js`).
    """
    if usd >= 1 or usd <= 0:
        return f"${usd:.2f}"
    digits = 4 if usd >= 0.001 else min(12, 1 - math.floor(math.log10(usd)))
    return f"${usd:.{digits}f}"


def cut_middle(text: str, max_chars: int, *, separator: str = "\n") -> str:
    """Return the text in at most `max_chars` characters: its beginning, how much was left out, and its end."""
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_left_out(len(text), separator))
    if room <= 0:
        return text[: max(0, max_chars)]
    head = (room + 1) // 2
    return text[:head] + _left_out(len(text) - room, separator) + text[len(text) - (room - head) :]


def clean(text: str) -> str:
    """Return the text with everything invisible but newlines and tabs spelled out, safe to print in a terminal."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


def one_line(text: str, width: int = 80) -> str:
    """Return a text as one line of at most `width` characters."""
    line = " ".join(clean(text[: 20 * width]).split())
    return shorten(line + "…" if len(text) > 20 * width else line, width)


def encodable(text: str) -> str:
    """Return the text with lone surrogates, which UTF-8 does not have, spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def fence(text: str) -> str:
    """Return a Markdown fence that the text cannot close: longer than any run of backticks in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _left_out(number: int, separator: str) -> str:
    return f"{separator}[... {number:,} characters left out ...]{separator}"


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is close to a misspelt one, if there is one."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` if a known name is close, and `; known are ...` otherwise."""
    names = list(known)
    near = near_name(name, names)
    if near is not None:
        return f"; did you mean {near}?"
    return f"; known are {', '.join(names)}" if names else ""
