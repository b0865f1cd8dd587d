"""`JsonLog`: a log that is one JSON array in one file, valid at every moment, for several processes.

A writer takes the lock file beside it, reads the array and replaces the file (see `rlm.files`): a reader sees either
the old array or the new one.
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

JsonEntry = dict[str, Any]


class JsonLogError(RlmError, ValueError):
    """A log cannot be read or written. It is left unchanged; the message says what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}")


class JsonLog:
    """One log. Entries are appended; only `amend` changes an entry."""

    def __init__(self, path: str | Path, check: Callable[[JsonEntry], None] | None = None) -> None:
        """`check` raises `ValueError` for an invalid entry."""
        self.path = Path(path)
        self._check = check or (lambda entry: None)

    def read(self) -> list[JsonEntry]:
        """Return all entries, oldest first; none if the file is missing or empty. Raises `JsonLogError`."""
        return self._parse(self._text())

    def append(self, entry: JsonEntry) -> None:
        """Append an entry."""
        self.append_unless(entry, lambda entries: None)

    def append_unless(self, entry: JsonEntry, find: Callable[[list[JsonEntry]], JsonEntry | None]) -> JsonEntry | None:
        """Append an entry unless `find` returns one of the existing entries; return that one, or None.

        The lock is held in between.
        """
        self._check(entry)
        with self._locked():
            text = self._text()
            entries = self._parse(text)
            existing = find(entries)
            if existing is None:
                # Existing entries keep their text, byte for byte.
                before = text.strip().removesuffix("]").rstrip() if entries else "["
                self._replace(f"{before}{',' if entries else ''}\n{dump(entry)}\n]\n")
            return existing

    def amend(self, key: str, value: Any, changes: JsonEntry) -> JsonEntry:
        """Change fields of the entry whose `key` has this value; return the changed entry."""
        with self._locked():
            entries = self.read()
            index = next((i for i, entry in enumerate(entries) if entry.get(key) == value), None)
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

    def _parse(self, text: str) -> list[JsonEntry]:
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
        """Hold the lock, against other threads and processes."""
        target = self.path.resolve()  # a link stays a link: its target is replaced
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
            raise JsonLogError(self.path, f"cannot be written: {error.strerror}; its content is unchanged") from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a text", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")
