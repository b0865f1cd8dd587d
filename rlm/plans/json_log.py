"""A log that is one JSON array in one file: whole at every moment, and safe under several processes.

A writer takes the lock file beside it, reads the array and replaces the file (see `rlm.files`): a reader sees the old
array or the new one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..files import FileLock, write_atomic
from ..json_values import dump

Entry = dict[str, Any]


class JsonLogError(RlmError, ValueError):
    """A log cannot be read or written. It is left as it is; the message says what to do."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        super().__init__(f"{path}: {what}")


class JsonLog:
    """One log. Entries are only added; `amend` alone adds to an entry that is there."""

    def __init__(self, path: str | Path, check: Callable[[Entry], None] | None = None) -> None:
        """`check` raises `ValueError` for an entry that must not be written."""
        self.path = Path(path)
        self._check = check or (lambda entry: None)

    def read(self) -> list[Entry]:
        """All entries, oldest first; none where the file is missing or empty. Raises `JsonLogError` if it is broken."""
        return self._parse(self._text())

    def append(self, entry: Entry) -> None:
        """Add an entry."""
        self.append_unless(entry, lambda entries: None)

    def append_unless(self, entry: Entry, found: Callable[[list[Entry]], Entry | None]) -> Entry | None:
        """Add an entry unless `found` finds one among those that are there; the one that was found, or None.

        Nobody else writes in between.
        """
        self._check(entry)
        with self._locked():
            text = self._text()
            entries = self._parse(text)
            there = found(entries)
            if there is None:
                # What others wrote stays as they wrote it, byte for byte.
                before = text.strip().removesuffix("]").rstrip() if entries else "["
                self._replace(f"{before}{',' if entries else ''}\n{dump(entry)}\n]\n")
            return there

    def amend(self, key: str, value: Any, changes: Entry) -> Entry:
        """Change fields of the entry whose `key` has this value; the entry as it is then."""
        with self._locked():
            entries = self.read()
            index = next((i for i, one in enumerate(entries) if one.get(key) == value), None)
            if index is None:
                raise JsonLogError(self.path, f"there is no entry whose {key} is {value!r}")
            entries[index] = {**entries[index], **changes}
            self._check(entries[index])
            self._replace("[\n" + ",\n".join(map(dump, entries)) + "\n]\n")
            return entries[index]

    def _text(self) -> str:
        try:
            return self.path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise JsonLogError(self.path, f"this is not UTF-8 text ({error}); move it away or repair it") from None
        except OSError as error:
            raise JsonLogError(self.path, f"cannot be read: {error.strerror}") from None

    def _parse(self, text: str) -> list[Entry]:
        if not text.strip():
            return []
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise JsonLogError(self.path, f"this is not JSON ({error}); move it away or repair it") from None
        if not isinstance(entries, list):
            raise JsonLogError(self.path, f"a log is a JSON array, not {_kind(entries)}; move it away or repair it")
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise JsonLogError(self.path, f"entry {index} is not an object but {_kind(entry)}; repair it")
        return entries

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """The right to write, for one caller at a time, in this process and in others."""
        target = self.path.resolve()  # a link stays a link: what it leads to is replaced
        lock = FileLock(target.with_name(target.name + ".lock"))
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock.acquire()
        except OSError as error:
            raise JsonLogError(self.path, f"cannot be written: {error.strerror}") from None
        try:
            yield
        finally:
            lock.release()

    def _replace(self, text: str) -> None:
        try:
            write_atomic(self.path, text, mode=0o600)
        except OSError as error:
            raise JsonLogError(self.path, f"cannot be written: {error.strerror}; what was there stays") from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a text", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")
