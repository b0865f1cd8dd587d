"""Strings as models write them: their ends, escapes and inner quotes.

A quote closes a string only if the text behind it can follow a string. Ambiguous strings are refused.
"""

from __future__ import annotations

import re

from ...errors import RlmError

_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = {"x": 2, "u": 4, "U": 8}
QUOTES = {'"': '"', "'": "'", "“": "”“", "”": "”“", "\u2018": "\u2019\u2018", "\u2019": "\u2019\u2018"}
_STOPS = {quote: re.compile(rf"[{closing}\\]") for quote, closing in QUOTES.items()}
_BLANK = re.compile(r"[\s\ufeff\u200b]*")
_NEXT_KEY = re.compile(r"""[^\S\n]*\n\s*(?:"[^"\n]{1,200}"|'[^'\n]{1,200}')\s*:""")


class Unreadable(RlmError):
    """The text cannot be parsed at `position`; `unfinished` means that it ended before the value.

    `first_key` is the first key before that position; only data has quoted keys.
    """

    first_key: str | None = None
    quoted_key = False

    def __init__(self, position: int, reason: str, *, unfinished: bool = False) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason
        self.unfinished = unfinished


def skip_blank(text: str, position: int) -> int:
    """Return the first position from `position` on that is no white space."""
    match = _BLANK.match(text, position)
    return match.end() if match else position


def starts_next_key(text: str, position: int) -> bool:
    """Return whether a new line with a quoted key begins here, so that only a comma is missing."""
    return bool(_NEXT_KEY.match(text, position))


def read_string(text: str, start: int, followers: str, *, in_object: bool = False) -> tuple[str, int]:
    """Return the string that starts at `start`, and its end; one of `followers` must come next."""
    quote = text[start]
    if quote in "\"'" and text.startswith(quote * 3, start):
        return _block(text, start, quote * 3)
    stops = _STOPS[quote]
    parts: list[str] = []
    position, quoted = start + 1, False
    while match := stops.search(text, position):
        parts.append(text[position : match.start()])
        position = match.start()
        if match.group() == "\\":
            part, position = _escape(text, position)
            parts.append(part)
        elif _ends(text, position + 1, followers, in_object) and not quoted:
            return "".join(parts), position + 1
        else:
            quoted = _inner(text, position, quote, quoted)
            parts.append(match.group())
            position += 1
    raise Unreadable(start + 1, "a string is never closed", unfinished=True)


def _ends(text: str, position: int, followers: str, in_object: bool) -> bool:
    """Return whether a quote before `position` closes its string: the text behind it can follow a string."""
    after = skip_blank(text, position)
    char = _char(text, after)
    if not char or char in followers or text.startswith(("//", "/*"), after):
        return True
    if char == "#" and after > position:
        return True
    return in_object and starts_next_key(text, position)


def _inner(text: str, position: int, quote: str, quoted: bool) -> bool:
    """Return whether a quote opens a quoted word in a string. Other quotes than these and apostrophes are refused."""
    before, after = text[position - 1], _char(text, position + 1)
    if quote in "'\u2018\u2019" and before.isalnum() and after.isalnum():
        return quoted
    if quote == '"' and not quoted and (before.isspace() or before == "(") and after.isalnum():
        return True
    ends_word = not before.isspace() and (after.isspace() or after in '.;!?)"')
    if quote == '"' and quoted and ends_word and _char(text, skip_blank(text, position + 1)) != ":":
        return False
    raise Unreadable(position, 'there is a quote inside a string that is not escaped; write it as \\"')


def _block(text: str, start: int, quotes: str) -> tuple[str, int]:
    """Return a Python string in triple quotes, and its end."""
    parts: list[str] = []
    position = start + 3
    stops = re.compile(re.escape(quotes) + r"|\\")
    while match := stops.search(text, position):
        parts.append(text[position : match.start()])
        if match.group() == quotes:
            return "".join(parts), match.end()
        part, position = _escape(text, match.start())
        parts.append(part)
    raise Unreadable(start + 3, "a string is never closed", unfinished=True)


def _escape(text: str, position: int) -> tuple[str, int]:
    kind = _char(text, position + 1)
    if not kind:
        raise Unreadable(position, "a string is never closed", unfinished=True)
    if kind in _ESCAPES:
        return _ESCAPES[kind], position + 2
    if kind in _HEX:
        end = position + 2 + _HEX[kind]
        code = _code(text, position + 2, end)
        if 0xD800 <= code < 0xDC00 and text.startswith("\\u", end):
            low = _code(text, end + 2, end + 6)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), end + 6
        return chr(code), end
    if kind == "\n":
        raise Unreadable(position, "a backslash at the end of a line means nothing in JSON")
    return "\\" + kind, position + 2  # as in Python: a backslash that escapes nothing is a backslash


def _code(text: str, start: int, end: int) -> int:
    digits = text[start:end]
    if len(digits) < end - start and end > len(text):
        raise Unreadable(start, "a string is never closed", unfinished=True)
    if not re.fullmatch(r"[0-9a-fA-F]+", digits) or int(digits, 16) > 0x10FFFF:
        raise Unreadable(start, "an escape in a string is not complete")
    return int(digits, 16)


def _char(text: str, position: int) -> str:
    return text[position] if position < len(text) else ""
