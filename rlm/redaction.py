"""Keeps keys out of traces: values of environment variables that hold one, and what looks like one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

MARK = "[secret]"

_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_?\d+)?$", re.IGNORECASE)
_MIN_CHARS = 8
_KNOWN_NAMES = 1_000
_WINDOW = 1 << 20  # a search of this many characters takes well under a millisecond; then other threads may run

# How keys of well-known services begin, and what follows. The beginnings are found first, by plain search: a regular
# expression over a large text would hold up every other thread.
_LOOKS = (
    ("sk-", re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}")),
    ("Bearer ", re.compile(r"(?<=Bearer )[A-Za-z0-9._~+/-]{16,}=*")),
    ("bearer ", re.compile(r"(?<=bearer )[A-Za-z0-9._~+/-]{16,}=*")),
    ("ghp_", re.compile(r"(?<![A-Za-z0-9])ghp_[A-Za-z0-9]{30,}")),
    ("github_pat_", re.compile(r"github_pat_[A-Za-z0-9_]{30,}")),
    ("AKIA", re.compile(r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("AIza", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}")),
    ("hf_", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}")),
    ("xox", re.compile(r"(?<![A-Za-z0-9])xox[abprs]-[A-Za-z0-9-]{16,}")),
)


class Scrubber:
    """Replaces secrets in texts. Made once; a text without one is given back as it is, without a copy."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = dict(os.environ) if environ is None else environ
        values = {value for name, value in environ.items() if _NAME.search(name) and len(value.strip()) >= _MIN_CHARS}
        # In JSON text a value may be written with escapes; both forms are looked for, the longest first.
        forms = {form for value in values for form in _forms(value)}
        self.values: tuple[str, ...] = tuple(sorted(forms, key=len, reverse=True))
        self._names: dict[str, str] = {}
        self._encoded = tuple(value.encode("utf-8", "surrogatepass") for value in self.values)

    def text(self, text: str) -> str:
        """The text without values of the environment, and without what looks like a key."""
        if len(text) < _MIN_CHARS:
            return text
        text = self.given(text)
        for start, pattern in _LOOKS:
            if start in text:
                text = _replaced(text, start, pattern)
        return text

    def name(self, name: str) -> str:
        """A name in an event without secrets. The same few come again and again."""
        known = self._names.get(name)
        if known is None:
            known = self.text(name)
            if len(self._names) < _KNOWN_NAMES:
                self._names[name] = known
        return known

    def given(self, text: str) -> str:
        """An input without values of the environment. What only looks like a key may be what the run is about."""
        for value in self.values:
            if _found(text, value):
                text = text.replace(value, MARK)
        return text

    def data(self, data: bytes) -> bytes:
        """Bytes without the values of the environment."""
        for value in self._encoded:
            if value in data:
                data = data.replace(value, MARK.encode())
        return data


def _forms(value: str) -> tuple[str, ...]:
    return value, value.strip(), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]


def _found(text: str, part: str) -> bool:
    """Whether a part is in a text. A large one is looked through in windows: other threads get their turn between."""
    if len(text) <= _WINDOW:
        return part in text
    return any(text.find(part, at, at + _WINDOW + len(part) - 1) >= 0 for at in range(0, len(text), _WINDOW))


def _replaced(text: str, start: str, pattern: re.Pattern[str]) -> str:
    kept, done, at = [], 0, text.find(start)
    while at >= 0:
        # The expression is tried at the beginning that was found, and just after it: "Bearer " itself stays.
        found = pattern.match(text, at) or pattern.match(text, at + len(start))
        if found:
            kept += [text[done : found.start()], MARK]
            done = found.end()
        at = text.find(start, max(done, at + 1))
    return "".join([*kept, text[done:]]) if kept else text
