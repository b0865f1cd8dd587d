"""The results file: one line of JSON for each item, in the order in which the items ended.

Opening the file repairs it: afterwards it agrees with the ledger and has neither torn nor duplicate lines.
"""

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
from .errors import BatchInUse, ForeignResultsFile, not_writable
from .item import ENDINGS, Outcome
from .ledger import Ledger, LedgerEntry

_LINE_START = b'{"item": '
"""The first bytes of every line."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """What was repaired when a results file was opened."""

    torn: int = 0
    """Bytes of an incomplete last line, which was removed."""

    restored: int = 0
    """Missing lines that were restored from the ledger."""

    replaced: int = 0
    """Lines removed because their items have changed or are to be run again."""

    moved: int = 0
    """Lines of items that have another name or number now, which were updated."""

    unrelated: int = 0
    """Lines of items that are not in the batch now: they stay, with null as their number."""

    duplicate: int = 0
    """Duplicate lines that were removed."""


class ResultsFile:
    """The results file of a batch, open for appending. `repairs` tells what was repaired when it was opened.

    Raises `BatchInUse`, `ForeignResultsFile` and `NotWritable`.
    """

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path = path
        self._ledger = ledger
        with _write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock, self.repairs = self._open()

    def write(self, number: int, outcome: Outcome) -> bool:
        """Record an outcome in the ledger and here; return False, and change nothing, if the item has one."""
        self._reopen_if_moved()
        entry = ledger_entry(number, outcome)
        if not self._ledger.write(entry):
            return False
        with _write_errors(self.path):
            _append(self._lock.fileno(), entry.line)
        return True

    def close(self) -> None:
        """Close the file."""
        try:
            self._reopen_if_moved()
        finally:
            self._lock.release()

    def _open(self) -> tuple[FileLock, Repairs]:
        """Lock the file and repair it."""
        lock = _lock(self.path)
        try:
            repairs = _repair(self.path, self._ledger)
            rewritten = None if lock.is_current() else _lock(self.path)
        except BaseException:
            lock.release()
            raise
        if rewritten is None:
            return lock, repairs
        lock.release()
        return rewritten, repairs

    def _reopen_if_moved(self) -> None:
        """Restore the file, with all its lines, if it was deleted or moved away."""
        if not self._lock.is_current():
            with _write_errors(self.path):
                lock, _ = self._open()
                self._lock.release()
                self._lock = lock


def _lock(path: Path) -> FileLock:
    """Lock the file for appending. Raises `BatchInUse` if another process has it, with whichever ledger."""
    lock = FileLock(path, mode=0o644, append=True)
    if not lock.acquire(timeout=0):
        raise BatchInUse(f"another process is writing to {path}; wait for it, end it, or use another --output")
    return lock


def ledger_entry(number: int, outcome: Outcome) -> LedgerEntry:
    """Return the outcome of an item as the ledger stores it; `number` is its position in the batch."""
    result, usage = outcome.result or {}, outcome.usage
    data: dict[str, Any] = {
        "item": outcome.name,
        "number": number,
        "ending": outcome.ending,
        "outputs": result.get("outputs"),
        "confidence": result.get("confidence"),
        "trust": result.get("trust"),
        "error": outcome.error,
        "usage": usage or None,
        "seconds": round(outcome.seconds, 6),
        "run_id": outcome.run_id,
        "worker": outcome.worker,
        "key": outcome.key,
    }
    for name in ("reason", "partial_outputs", "plan"):
        if outcome.ending != "Submitted" and result.get(name) is not None:
            data[name] = result[name]
    for name in ("field_confidence", "extraction_notes", "notes"):
        if result.get(name) not in (None, {}):
            data["notes" if name == "extraction_notes" else name] = result[name]
    return _entry(data, outcome.seconds, dump(data))


def _entry(data: dict[str, Any], seconds: float, line: str) -> LedgerEntry:
    usage = data.get("usage") or {}
    tokens = int(usage.get("tokens_in") or 0) + int(usage.get("tokens_out") or 0)
    cost, unpriced = usage.get("cost_usd"), int(usage.get("unpriced_calls") or 0)
    return LedgerEntry(data["key"], data["ending"], data.get("error"), seconds, tokens, cost, unpriced, line)


def _append(file: int, line: str) -> None:
    """Append a whole line or nothing: a line that does not fit is removed again."""
    data, before = line.encode() + b"\n", os.fstat(file).st_size
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, before)
        raise


def _repair(path: Path, ledger: Ledger) -> Repairs:
    """Make the file agree with the ledger: no torn, duplicate, missing or outdated lines."""
    torn, states = 0, Counter[str]()
    if path.exists():
        with path.open("rb+") as file:
            torn = _torn_bytes(file, path)
            states = _count_states(file, path, ledger)
            file.truncate(file.seek(0, os.SEEK_END) - torn)  # not before every line was recognized
            if any(states[state] for state in ("again", "replaced", "moved", "numbered", "duplicate")):
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
    return Repairs(
        torn=torn,
        restored=restored - states["moved"],
        replaced=states["again"] + states["replaced"],
        moved=states["moved"],
        unrelated=states["other"],
        duplicate=states["duplicate"],
    )


def _renamed(line: str, name: str, number: int) -> str:
    data = json.loads(line)
    return line if (data["item"], data["number"]) == (name, number) else dump({**data, "item": name, "number": number})


def _torn_bytes(file: IO[bytes], path: Path) -> int:
    """Return the length of an incomplete last line. Raises if that line is not part of a result."""
    end = size = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65_536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    file.seek(end)
    if not _LINE_START.startswith(file.read(len(_LINE_START))):
        raise _foreign(path)
    return size - end


def _count_states(file: IO[bytes], path: Path, ledger: Ledger) -> Counter[str]:
    """Count the lines by state. Outcomes that only the file has are recorded in the ledger."""
    states = Counter[str]()
    ledger.begin_lines()
    for number, data, line in _parsed(file, path):
        if not ledger.note_line(data["key"]):
            states["duplicate"] += 1
            continue
        state = ledger.line_state(data["key"], data["item"], data["number"])
        if state in ("open", "replaced"):
            ledger.write(_entry_of_line(data, line, path, number))
            state = ledger.line_state(data["key"], data["item"], data["number"])
        states[state] += 1
        states["numbered"] += state == "other" and data["number"] is not None
    return states


def _rewrite(file: IO[bytes], path: Path, ledger: Ledger) -> None:
    """Replace the file by one without outdated lines. Lines of items that are not in the batch lose their number."""
    ledger.begin_lines()
    with replacing(path) as target:
        for _, data, line in _parsed(file, path):
            if not ledger.note_line(data["key"]):
                continue
            state = ledger.line_state(data["key"], data["item"], data["number"])
            if state == "other" and data["number"] is not None:
                line = dump({**data, "number": None})
            if state in ("current", "other"):
                target.write(line.encode() + b"\n")


def _parsed(file: IO[bytes], path: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    file.seek(0)
    for number, raw in enumerate(file, 1):
        if not raw.endswith(b"\n"):
            return  # torn
        try:
            line = raw.decode().rstrip("\n")
            data = json.loads(line)
            valid = isinstance(data["key"], str) and isinstance(data["item"], str)
            valid = valid and isinstance(data["number"], int | None) and data["ending"] in ENDINGS
        except (ValueError, TypeError, KeyError, RecursionError):
            valid = False
        if not valid:
            raise _foreign(path, number)
        yield number, data, line


def _keys(path: Path) -> Iterator[str]:
    if path.exists():
        with path.open("rb") as file:
            for _, data, _ in _parsed(file, path):
                yield data["key"]


def _entry_of_line(data: dict[str, Any], line: str, path: Path, number: int) -> LedgerEntry:
    try:
        return _entry(data, float(data.get("seconds") or 0), line)
    except (TypeError, ValueError, AttributeError):
        raise _foreign(path, number) from None


def _foreign(path: Path, number: int | None = None) -> ForeignResultsFile:
    where = f"the last line of {path}" if number is None else f"{path}:{number}"
    return ForeignResultsFile(f"{where} is no result of a batch; use another file with --output")


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_writable(f"the results file {path}", error, "use another file with --output") from error
