"""Redaction: secrets are replaced in every text that is written or sent.

Secrets are the values of environment variables whose names say so, passwords in URLs of the environment, values that
`protect` was called with, and text with the form of a key, a token or a private key. Every search takes time linear in
the text, and a large text is searched in pieces: traces carry text that nobody has read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote, urlsplit

MARK = "[secret]"

_SECRET_WORD = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)\d*$|^(?:PAT|PASS|PWD)\d*$")
"""A word of a variable's name that says that the value is a secret: the last one, or one followed by others."""

_NO_SECRET = frozenset(
    {"ALGORITHM", "COUNT", "DIR", "FILE", "HEADER", "ID", "LIMIT", "NAME", "PATH", "SIZE", "SOCK", "TTL", "TYPE", "URL"}
)
"""Last words of names whose values are about a secret: `SSH_KEY_PATH`."""

_SHELL = frozenset({"PWD", "OLDPWD"})  # the working directory
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MIN_CHARS = 8
_KNOWN_NAMES = 1_000
_WINDOW = 1 << 20  # a search of this many characters takes well under a millisecond; then other threads may run

# How keys of well-known services begin, and what follows. The beginnings are found by plain search first, because a
# regular expression over a large text would block every other thread. Each expression is tried where its beginning is.
# It must fail after a bounded number of characters, or consume what it has read (possessive quantifiers), so that
# a text made of beginnings takes linear time, too.
_FORMS = (
    ("sk-", r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}"),
    ("sk_live_", r"(?<![A-Za-z0-9])sk_live_[A-Za-z0-9]{16,}"),
    ("Bearer ", r"(?<=Bearer )[A-Za-z0-9._~+/-]{16,}=*"),
    ("bearer ", r"(?<=bearer )[A-Za-z0-9._~+/-]{16,}=*"),
    *((f"gh{kind}_", rf"(?<![A-Za-z0-9])gh{kind}_[A-Za-z0-9]{{30,}}") for kind in "opusr"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{30,}"),
    ("glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_.-]{20,}"),
    ("AKIA", r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("ASIA", r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("AIza", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}"),
    ("hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}"),
    ("gsk_", r"(?<![A-Za-z0-9])gsk_[A-Za-z0-9]{30,}"),
    ("rlm_", r"(?<![A-Za-z0-9])rlm_[0-9a-f]{12}_[A-Za-z0-9_-]{43}"),
    ("xai-", r"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{30,}"),
    ("xox", r"(?<![A-Za-z0-9])xox[abprs]-[A-Za-z0-9-]{16,}"),
    # A JSON web token: header and payload are JSON objects in base64.
    ("eyJ", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
    # Its line breaks may be escaped, and its end may be cut off.
    (
        "-----BEGIN ",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,]|-(?!----)){0,16000}+"
        r"(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    ("://", r"(?<=://)[^\s/:@\"'<>\\]{0,64}+:[^\s/@\"'<>\\]{1,256}+(?=@)"),
)
_PATTERNS = tuple((start, re.compile(pattern)) for start, pattern in _FORMS)

_protected: frozenset[str] = frozenset()


def protect(*values: str | None) -> None:
    """Redact these values, too, from now on in this process: keys from variables of any name, or given as values."""
    global _protected
    new = {value for value in values if value is not None and len(value.strip()) >= _MIN_CHARS}
    if not new <= _protected:
        _protected |= new


def is_secret_name(name: str) -> bool:
    """Return whether the value of an environment variable with this name is a secret."""
    words = name.upper().split("_")
    return name not in _SHELL and words[-1] not in _NO_SECRET and any(map(_SECRET_WORD.search, words))


class Redactor:
    """Replaces secrets in texts. A text without one is returned as it is, without a copy."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = dict(os.environ) if environ is None else environ
        self._environment = frozenset(_secrets(environ))
        self._set(_protected)

    def text(self, text: str) -> str:
        """Return the text without secrets of any kind."""
        if len(text) < _MIN_CHARS:
            return text
        text = self.input(text)
        for start, pattern in _PATTERNS:
            if start in text:
                text = _replaced(text, start, pattern)
        return text

    def name(self, name: str) -> str:
        """Return a name in an event without secrets. The same few come again and again, and are remembered."""
        self._refresh()
        known = self._names.get(name)
        if known is None:
            known = self.text(name)
            if len(self._names) < _KNOWN_NAMES:
                self._names[name] = known
        return known

    def input(self, text: str) -> str:
        """Return an input without known secrets. Text with the form of a key may be what the run is about."""
        self._refresh()
        for value in self.values:
            if _contains(text, value):
                text = text.replace(value, MARK)
        return text

    def data(self, data: bytes) -> bytes:
        """Return bytes without known secrets."""
        self._refresh()
        for value in self._encoded:
            if value in data:
                data = data.replace(value, MARK.encode())
        return data

    def _refresh(self) -> None:
        if self._protected is not _protected:
            self._set(_protected)

    def _set(self, protected: frozenset[str]) -> None:
        self._protected = protected
        forms = {form for value in self._environment | protected for form in _forms(value)}
        self.values: tuple[str, ...] = tuple(sorted(forms, key=len, reverse=True))  # a secret may contain another one
        self._encoded = tuple(value.encode("utf-8", "surrogatepass") for value in self.values)
        self._names: dict[str, str] = {}


def _secrets(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if len(value.strip()) < _MIN_CHARS:
            continue
        if is_secret_name(name) and (_SECRET_WORD.search(name.upper()) or not _NUMBER.fullmatch(value.strip())):
            yield value
        if "://" in value and "@" in value:
            yield from _of_url(value)


def _of_url(value: str) -> Iterator[str]:
    """Return a URL with a password in it, and the password."""
    try:
        password = urlsplit(value.strip()).password
    except ValueError:
        return
    if password:
        yield value
        yield from (form for form in {password, unquote(password)} if len(form) >= _MIN_CHARS)


def _forms(value: str) -> tuple[str, ...]:
    """Return the ways in which a value may be written: in JSON, in Python, in a URL."""
    stripped = value.strip()
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    return value, stripped, *escaped, quote(stripped, safe="", errors="replace")


def _contains(text: str, part: str) -> bool:
    """Return whether a part is in a text. Other threads get their turn between the pieces of a large one."""
    if len(text) <= _WINDOW:
        return part in text
    return any(text.find(part, at, at + _WINDOW + len(part) - 1) >= 0 for at in range(0, len(text), _WINDOW))


def _replaced(text: str, start: str, pattern: re.Pattern[str]) -> str:
    pieces, done, at = [], 0, text.find(start)
    while at >= 0:
        # The expression is tried at the beginning that was found, and just after it: "Bearer " itself stays.
        match = pattern.match(text, at) or pattern.match(text, at + len(start))
        if match:
            pieces += [text[done : match.start()], MARK]
            done = match.end()
        at = text.find(start, max(done, at + 1))
    return "".join([*pieces, text[done:]]) if pieces else text
