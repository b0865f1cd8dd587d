"""A parser for JSON as models write it. It reads one value at one place, and adds nothing that is not in the text.

Beyond strict JSON it accepts comments, trailing commas, a comma missing at the end of a line, single and typographic
quotes, unquoted keys, Python literals and tuples, raw line breaks and quoted words in strings. Everything that it
returns is in the text, and only layout and comments are skipped; any other text is refused. Repair libraries are not
used: they drop what they do not understand, and close what was truncated.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from ...errors import RlmError
from ...json_values import MAX_DEPTH
from ...signatures.validation import to_float

_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}

_OPENERS = re.compile(r"[\[{(\s]*")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][\d_]*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_CUT_NUMBER = re.compile(r"[+-]?[\d_]{0,400}\.?\d{0,400}(?:[eE][+-]?)?", re.ASCII)
_NAME = re.compile(r"[^\W\d][\w$]*|[$][\w$]*")
_DIGITS = re.compile(r"-?\d{1,30}(?![\w.])", re.ASCII)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys: they are ambiguous."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key comes twice")
    return values


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=to_float, object_pairs_hook=_unique)


def read(text: str, start: int, *, strict_first: bool = True) -> tuple[Any, int]:
    """Return the value that starts at `start`, and its end. Raise only `Unreadable`.

    The standard library parses strict JSON first, for speed; the result is the same.
    """
    if strict_first:
        try:
            return _STRICT.raw_decode(text, start)
        except (ValueError, RecursionError):
            pass
    reader = _Reader(text)
    try:
        return reader.value(start)
    except Unreadable as error:
        error.first_key, error.quoted_key = reader.first_key, reader.quoted_key
        raise


def read_strict(text: str) -> Any:
    """Return the value of a whole text in strict JSON. Raise only `ValueError`."""
    try:
        return _STRICT.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _Open:
    """A container that is not complete yet."""

    __slots__ = ("at", "closer", "commas", "items", "key")

    def __init__(self, opener: str, at: int) -> None:
        self.at = at
        self.closer = _CLOSERS[opener]
        self.items: dict[str, Any] | list[Any] = {} if opener == "{" else []
        self.key = ""
        self.commas = 0

    def add(self, value: Any) -> None:
        if isinstance(self.items, dict):
            self.items[self.key] = value
        else:
            self.items.append(value)


class _Reader:
    """Parses in one pass with an explicit stack, without recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = len(text)
        self.first_key: str | None = None
        self.quoted_key = False

    def value(self, position: int) -> tuple[Any, int]:
        stack: list[_Open] = []
        while True:
            position = self._skip(position)
            top = stack[-1] if stack else None
            if top and self._char(position) == top.closer:
                done: Any = self._closed(stack.pop(), position)
                position += 1
            else:
                if top and isinstance(top.items, dict):
                    top.key, position = self._key(position)
                    if top.key in top.items:
                        raise Unreadable(position, f"the key {top.key[:40]!r} comes twice")
                if self._char(position) in _CLOSERS:
                    if len(stack) >= MAX_DEPTH:
                        run = _OPENERS.match(self.text, position)
                        past = run.end() if run else position
                        raise Unreadable(past, f"it is nested more than {MAX_DEPTH} levels deep")
                    stack.append(_Open(self.text[position], position))
                    position += 1
                    continue
                done, position = self._scalar(position, bool(top and isinstance(top.items, dict)))
            # A value is complete: add it to its container, and close the containers that end here.
            while stack:
                stack[-1].add(done)
                position, ended = self._after(position, stack[-1])
                if not ended:
                    break
                done = self._closed(stack.pop(), position - 1)
            else:
                return done, position

    def _closed(self, done: _Open, position: int) -> Any:
        if done.closer == ")" and not done.commas and done.items:
            raise Unreadable(position, "brackets around a single value are neither JSON nor a tuple")
        return done.items

    def _after(self, position: int, holder: _Open) -> tuple[int, bool]:
        """Return the position after the comma or closer behind a value in `holder`, and whether it was the closer."""
        start = position
        position = self._skip(position)
        char = self._char(position)
        if char == holder.closer:
            return position + 1, True
        if char == ",":
            holder.commas += 1
            return position + 1, False
        if isinstance(holder.items, dict) and starts_next_key(self.text, start):
            return position, False
        raise Unreadable(position, f"expected ',' or '{holder.closer}' but found {self._shown(position)}")

    def _key(self, position: int) -> tuple[str, int]:
        char = self._char(position)
        if char in QUOTES:
            key, position = read_string(self.text, position, ":")
        elif match := _NAME.match(self.text, position) or _DIGITS.match(self.text, position):
            key, position = match.group(), match.end()
        else:
            raise Unreadable(position, f"expected a key but found {self._shown(position)}")
        position = self._skip(position)
        if self._char(position) != ":":
            raise Unreadable(position, f"expected ':' after the key {key[:40]!r} but found {self._shown(position)}")
        if self.first_key is None:
            self.first_key, self.quoted_key = key, char in QUOTES
        return key, self._skip(position + 1)

    def _scalar(self, position: int, in_object: bool) -> tuple[Any, int]:
        if self._char(position) in QUOTES:
            return read_string(self.text, position, ",}])", in_object=in_object)
        if match := _NUMBER.match(self.text, position):
            return self._number(match.group(), position), match.end()
        if (match := _NAME.match(self.text, position)) and match.group() in _WORDS:
            return _WORDS[match.group()], match.end()
        if (match and match.end() == self.size) or _CUT_NUMBER.fullmatch(self.text, position):
            raise Unreadable(position, "it ends in the middle of a value", unfinished=True)
        raise Unreadable(position, f"expected a value but found {self._shown(position)}")

    def _number(self, digits: str, position: int) -> int | float:
        try:
            number = to_float(digits) if any(mark in digits for mark in ".eE") else int(digits)
        except ValueError as error:
            raise Unreadable(position, f"this number cannot be read: {error}") from None
        if isinstance(number, float) and not math.isfinite(number):
            raise Unreadable(position, "this number is too large")
        return number

    def _skip(self, position: int) -> int:
        """Return the position after white space and comments. A comment for omitted content is refused."""
        while True:
            position = skip_blank(self.text, position)
            if self.text.startswith("/*", position):
                end = self.text.find("*/", position + 2)
                if end < 0:
                    raise Unreadable(self.size, "a comment is never closed", unfinished=True)
                comment, after = self.text[position + 2 : end], end + 2
            elif self.text.startswith(("//", "#"), position):
                end = self.text.find("\n", position)
                after = self.size if end < 0 else end
                comment = self.text[position:after].lstrip("/#")
            else:
                return position
            if comment.strip().startswith(("...", "…")):
                raise Unreadable(position, "something is left out here; write all of it")
            if comment.count('"') % 2:
                raise Unreadable(position, "this is half a string and half a comment")
            position = after

    def _char(self, position: int) -> str:
        return self.text[position] if position < self.size else ""

    def _shown(self, position: int) -> str:
        if position >= self.size or (position == self.size - 1 and self.text[position] == "/"):  # half a comment
            raise Unreadable(position, "it ends before it is complete", unfinished=True)
        return repr(self.text[position : position + 20])


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
