"""Writing a log, so that nothing is lost: not by a process that is killed, and not by two of them at once.

A line is written whole and synced before the next sample is finished; what a killed process was writing is repaired by
whoever goes on. The other two files are there whole, or as they were before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..files import FileLock, write_atomic
from ..json_values import preview
from ..redaction import Redactor
from .log import HEADER, SAMPLES, SUMMARY, Entry, EvalLogError, is_log, read_header, refuse_changed

_NOT_COMPARED = frozenset({"started", "machine"})


class LogWriter:
    """A log that is written. One process at a time: others get a `EvalLogError`."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        self._redactor = Redactor()
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_others(folder)
        self._lock = FileLock(folder / SAMPLES, mode=0o644, append=True)
        if not self._lock.acquire(timeout=0):
            raise EvalLogError(f"another process is writing to {folder}; wait for it, or use another --log")
        self._file = self._lock.fileno()
        try:
            made = json.loads(self._redactor.text(json.dumps(dict(header))))
            if is_log(folder):
                _same(folder, read_header(folder), made)
            elif os.fstat(self._file).st_size:
                raise EvalLogError(f"{folder} has a {SAMPLES} but no {HEADER}; use another directory")
            else:
                write_whole(folder / HEADER, made)
            self._repair()
        except BaseException:
            self._lock.release()
            raise

    def append(self, entry: Entry) -> None:
        """Write one entry; when this returns, it is on disk."""
        line = self._redactor.input(json.dumps(entry.to_dict(), allow_nan=False)).encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)

    def summarize(self, summary: Mapping[str, Any]) -> None:
        """Write the summary in place of the one before."""
        write_whole(self.folder / SUMMARY, summary)

    def close(self) -> None:
        """Release the log."""
        self._lock.release()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repair(self) -> None:
        """Make the file end with a whole line: what a killed process was writing is finished or taken away."""
        data = (self.folder / SAMPLES).read_bytes()
        if not data or data.endswith(b"\n"):
            return
        whole = data.rfind(b"\n") + 1
        try:
            Entry.from_dict(json.loads(data[whole:]))
        except (ValueError, TypeError):
            os.ftruncate(self._file, whole)
        else:
            os.write(self._file, b"\n")
        os.fsync(self._file)


def write_whole(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file so that it is there whole, or as it was before."""
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def _refuse_others(folder: Path) -> None:
    """Raise if a directory holds something, but no log: a log is not written in between."""
    others = sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
    begun = any((folder / name).exists() for name in (HEADER, SAMPLES))
    if others and not begun:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise EvalLogError(f"{folder} is no log, and there are other files in it ({shown}); use a directory of its own")


def _same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if a log was begun with something else."""
    refuse_changed(before, now["suites"])
    found = list(_differences(_with_names(before), _with_names(now)))
    if found:
        listed = "\n".join(f"  {name}: {preview(old)} there, {preview(new)} now" for name, old, new in found)
        raise EvalLogError(
            f"{folder} was begun with other settings:\n{listed}\nGive the same command again to go on with it, or use "
            "another --log."
        )


def _with_names(header: Mapping[str, Any]) -> dict[str, Any]:
    return {**header, "suites": [one.get("path") or one["name"] for one in header["suites"]]}


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            if name or key not in _NOT_COMPARED:
                yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
    elif before != now:
        yield name, before, now
