"""The writer of an evaluation log. A kill at any point loses at most the entry being written, and one process writes.

Each line is synced to disk when it is written; an incomplete last line is repaired by the next writer. Header and
summary are replaced atomically.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..files import FileLock, write_atomic
from ..json_values import preview
from ..redaction import Redactor
from .log import HEADER, SAMPLES, SUMMARY, EvalLogError, LogEntry, LogWriteError, is_log, read_header, refuse_changed

_NOT_COMPARED = frozenset({"started", "machine", "versions", "later_versions"})


class LogWriter:
    """Writes one log.

    Raises `EvalLogError` if another process is writing it or it belongs to another evaluation, and `LogWriteError`.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        self._redactor = Redactor()
        with _write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_foreign_files(folder)
            self._lock = FileLock(folder / SAMPLES, mode=0o644, append=True)
            locked = self._lock.acquire(timeout=0)
        if not locked:
            raise EvalLogError(f"another process is writing to {folder}; wait for it, or use another --log")
        self._file = self._lock.fileno()
        try:
            stored = json.loads(self._redactor.text(json.dumps(dict(header))))
            if is_log(folder):
                before = read_header(folder)
                _refuse_other_settings(folder, before, stored)
                self._note_versions(before, stored["versions"])
            elif os.fstat(self._file).st_size:
                raise EvalLogError(f"{folder} has a {SAMPLES} but no {HEADER}; use another directory")
            else:
                with _write_errors(folder):
                    write_json(folder / HEADER, stored)
            with _write_errors(folder):
                self._repair()
        except BaseException:
            self._lock.release()
            raise

    def _note_versions(self, header: dict[str, Any], versions: Mapping[str, str]) -> None:
        """Note in the header that the log goes on with other versions of rlm or dspy than it was started with."""
        later = header.get("later_versions", [])
        if versions != (later or [header["versions"]])[-1]:
            with _write_errors(self.folder):
                write_json(self.folder / HEADER, {**header, "later_versions": [*later, versions]})

    def append(self, entry: LogEntry) -> None:
        """Append an entry and sync it to disk."""
        line = self._redactor.input(json.dumps(entry.to_dict(), allow_nan=False)).encode() + b"\n"
        with _write_errors(self.folder):
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)

    def summarize(self, summary: Mapping[str, Any]) -> None:
        """Replace the summary."""
        with _write_errors(self.folder):
            write_json(self.folder / SUMMARY, summary)

    def close(self) -> None:
        """Release the log."""
        self._lock.release()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repair(self) -> None:
        """Complete or remove an incomplete last line, which a killed process has left."""
        data = (self.folder / SAMPLES).read_bytes()
        if not data or data.endswith(b"\n"):
            return
        end = data.rfind(b"\n") + 1
        try:
            LogEntry.from_dict(json.loads(data[end:]))
        except (ValueError, TypeError):
            os.ftruncate(self._file, end)
        else:
            os.write(self._file, b"\n")
        os.fsync(self._file)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically."""
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextlib.contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LogWriteError(f"the log {folder} cannot be written ({error.strerror or error})") from error


def _refuse_foreign_files(folder: Path) -> None:
    """Raise `EvalLogError` if a directory has files but is not a log."""
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    started = any((folder / name).exists() for name in (HEADER, SAMPLES))
    if others and not started:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise EvalLogError(f"{folder} is not a log and has other files in it ({shown}); use an empty directory")


def _refuse_other_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `EvalLogError` if a log was started with other settings."""
    refuse_changed(before, now["suites"])
    differences = list(_differences(_with_suite_names(before), _with_suite_names(now)))
    if differences:
        lines = "\n".join(f"  {name}: {preview(old)} there, {preview(new)} now" for name, old, new in differences)
        raise EvalLogError(
            f"{folder} was started with other settings:\n{lines}\nRun the same command again to continue it, or use "
            "another --log."
        )


def _with_suite_names(header: Mapping[str, Any]) -> dict[str, Any]:
    return {**header, "suites": [suite.get("path") or suite["name"] for suite in header["suites"]]}


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            if name or key not in _NOT_COMPARED:
                yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
    elif before != now:
        yield name, before, now
