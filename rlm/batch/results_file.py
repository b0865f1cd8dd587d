"""The results file: a line of JSON for each item, in the order in which they ended. Never a torn or a double line."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..files import FileLock, replacing
from ..json_values import dump
from .errors import BatchTaken, ForeignResults, unwritable
from .ledger import Entry, Ledger
from .outcome import ENDINGS, Outcome

_FIRST = b'{"item": '
"""How every line begins."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What had to be done to a results file before a batch could go on with it."""

    torn: int = 0
    """Bytes of a line that was not finished."""

    restored: int = 0
    """Lines that the ledger had and the file had not."""

    replaced: int = 0
    """Lines of items that have changed since, or are to be done again."""

    moved: int = 0
    """Lines of items that have another name or number now."""

    gone: int = 0
    """Lines of items that are not in the batch now: they stay, and their number is null."""

    double: int = 0
    """Lines of items that had one already."""


class Results:
    """The results file of a batch, open for more lines. `mended` says what was put right when it was opened."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path = path
        self._ledger = ledger
        with _room(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock, self.mended = self._open()

    def write(self, number: int, outcome: Outcome) -> bool:
        """Write an outcome down, in the ledger and here; False if the item has one already."""
        self._return()
        entry = entry_of(number, outcome)
        if not self._ledger.write(entry):
            return False
        with _room(self.path):
            _append(self._lock.fileno(), entry.line)
        return True

    def close(self) -> None:
        """Close the file."""
        try:
            self._return()
        finally:
            self._lock.release()

    def _open(self) -> tuple[FileLock, Mended]:
        """Lock the file and repair it."""
        lock = _locked(self.path)
        try:
            mended = _mend(self.path, self._ledger)
            replaced = None if lock.is_current() else _locked(self.path)
        except BaseException:
            lock.release()
            raise
        if replaced is None:
            return lock, mended
        lock.release()
        return replaced, mended

    def _return(self) -> None:
        """Put the file back, with all its lines, if somebody has taken it away."""
        if not self._lock.is_current():
            with _room(self.path):
                lock, _ = self._open()
                self._lock.release()
                self._lock = lock


def _locked(path: Path) -> FileLock:
    """Lock the file for appending. Raise `BatchTaken` if another process has it, with whatever ledger."""
    lock = FileLock(path, mode=0o644, append=True)
    if not lock.acquire(timeout=0):
        raise BatchTaken(f"another process is writing to {path}; wait for it, or end it, or name another --output")
    return lock


def entry_of(number: int, outcome: Outcome) -> Entry:
    """An outcome as the ledger keeps it. `number` is the item's place in the batch."""
    result = outcome.result or {}
    usage = result.get("usage") or {}
    made: dict[str, Any] = {
        "item": outcome.name,
        "number": number,
        "ending": outcome.ending,
        "outputs": result.get("outputs"),
        "confidence": result.get("confidence"),
        "error": outcome.error,
        "usage": usage or None,
        "seconds": round(outcome.seconds, 6),
        "run_id": outcome.run_id,
        "worker": outcome.worker,
        "key": outcome.key,
    }
    for name in ("reason", "partial_outputs", "plan", "field_confidence", "extraction_notes"):
        if outcome.ending != "Submitted" and result.get(name) not in (None, {}):
            made["notes" if name == "extraction_notes" else name] = result[name]
    tokens = int(usage.get("tokens_in") or 0) + int(usage.get("tokens_out") or 0)
    cost, unpriced = usage.get("cost_usd"), int(usage.get("unpriced_calls") or 0)
    return Entry(outcome.key, outcome.ending, outcome.error, outcome.seconds, tokens, cost, unpriced, dump(made))


def _append(file: int, line: str) -> None:
    """Write a whole line, or none: what there was room for is taken away again."""
    data, before = line.encode() + b"\n", os.fstat(file).st_size
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, before)
        raise


def _mend(path: Path, ledger: Ledger) -> Mended:
    """Make the file say what the ledger says: no half line, none twice, none missing, none of an earlier version."""
    torn, found = 0, Counter[str]()
    if path.exists():
        with path.open("rb+") as file:
            torn = _torn(file, path)
            found = _look(file, path, ledger)
            file.truncate(file.seek(0, os.SEEK_END) - torn)  # not before it is known to be ours
            if found["again"] + found["replaced"] + found["moved"] + found["numbered"] + found["double"]:
                _rewrite(file, path, ledger)
    ledger.begin_lines()
    for key in _keys(path):
        ledger.note_line(key)
    restored = 0
    target = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        for line, name, number in ledger.missing_lines():
            _append(target, _renamed(line, name, number))
            restored += 1
    finally:
        os.close(target)
    moved = found["moved"]
    return Mended(torn, restored - moved, found["again"] + found["replaced"], moved, found["other"], found["double"])


def _renamed(line: str, name: str, number: int) -> str:
    data = json.loads(line)
    return line if (data["item"], data["number"]) == (name, number) else dump({**data, "item": name, "number": number})


def _torn(file: IO[bytes], path: Path) -> int:
    """How long a last line is that is not finished. Raises if it is none of ours."""
    end = size = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65_536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    file.seek(end)
    if not _FIRST.startswith(file.read(len(_FIRST))):
        raise _foreign(path)
    return size - end


def _look(file: IO[bytes], path: Path, ledger: Ledger) -> Counter[str]:
    """How the lines stand. Outcomes that only the file knows are written into the ledger."""
    found = Counter[str]()
    ledger.begin_lines()
    for number, data, line in _parsed(file, path):
        if not ledger.note_line(data["key"]):
            found["double"] += 1
            continue
        standing = ledger.standing(data["key"], data["item"], data["number"])
        if standing in ("open", "replaced"):
            ledger.write(_entry_of_line(data, line, path, number))
            standing = ledger.standing(data["key"], data["item"], data["number"])
        found[standing] += 1
        found["numbered"] += standing == "other" and data["number"] is not None
    return found


def _rewrite(file: IO[bytes], path: Path, ledger: Ledger) -> None:
    """The file without the lines that must go, put in its place as a whole. What is not in the batch has no number."""
    ledger.begin_lines()
    with replacing(path) as target:
        for _, data, line in _parsed(file, path):
            if not ledger.note_line(data["key"]):
                continue
            standing = ledger.standing(data["key"], data["item"], data["number"])
            if standing == "other" and data["number"] is not None:
                line = dump({**data, "number": None})
            if standing in ("current", "other"):
                target.write(line.encode() + b"\n")


def _parsed(file: IO[bytes], path: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    file.seek(0)
    for number, raw in enumerate(file, 1):
        if not raw.endswith(b"\n"):
            return  # torn
        try:
            line = raw.decode().rstrip("\n")
            data = json.loads(line)
            ours = isinstance(data["key"], str) and isinstance(data["item"], str)
            ours = ours and isinstance(data["number"], int | None)
            ours = ours and data["ending"] in ENDINGS
        except (ValueError, TypeError, KeyError, RecursionError):
            ours = False
        if not ours:
            raise _foreign(path, number)
        yield number, data, line


def _keys(path: Path) -> Iterator[str]:
    if path.exists():
        with path.open("rb") as file:
            for _, data, _ in _parsed(file, path):
                yield data["key"]


def _entry_of_line(data: dict[str, Any], line: str, path: Path, number: int) -> Entry:
    usage = data.get("usage") or {}
    try:
        tokens = int(usage.get("tokens_in") or 0) + int(usage.get("tokens_out") or 0)
        seconds, unpriced = float(data.get("seconds") or 0), int(usage.get("unpriced_calls") or 0)
    except (TypeError, ValueError, AttributeError):
        raise _foreign(path, number) from None
    error, cost = data.get("error"), usage.get("cost_usd")
    return Entry(data["key"], data["ending"], error, seconds, tokens, cost, unpriced, line)


def _foreign(path: Path, number: int | None = None) -> ForeignResults:
    where = f"the last line of {path}" if number is None else f"{path}:{number}"
    return ForeignResults(f"{where} is no result of a batch; name another file with --output")


@contextlib.contextmanager
def _room(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritable(f"the results {path}", error, "name another file with --output") from error
