"""The ledger of a batch: its items, their leases and their outcomes. A SQLite file, used by one driver at a time.

An outcome is recorded here first, together with its line for the results file, and then appended to that file. Whenever
a driver is killed, the next one finds here what has ended, and can tell which lines of the results file are missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..files import FileLock
from . import fingerprint
from .errors import BatchError, BatchInUse, not_writable

VERSION = 2
_TABLES = """
CREATE TABLE items (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, lease REAL);
CREATE TABLE leases (key TEXT PRIMARY KEY, until REAL, losses INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE outcomes (
    key TEXT PRIMARY KEY, ending TEXT NOT NULL, error TEXT, seconds REAL, tokens INTEGER, cost_usd REAL,
    unpriced INTEGER NOT NULL DEFAULT 0, ended REAL NOT NULL, again INTEGER NOT NULL DEFAULT 0, line TEXT NOT NULL
);
CREATE INDEX by_ending ON outcomes (ending);
"""
# The cost of each item, all attempts included.
_SPENT = "CREATE TABLE spent (key TEXT PRIMARY KEY, usd REAL NOT NULL) WITHOUT ROWID;"
_MIGRATE_SPENT = "INSERT INTO spent SELECT key, cost_usd FROM outcomes WHERE cost_usd IS NOT NULL;"
_ADVICE = "make it writable, or set RLM_HOME to another directory for ledgers and traces"
_CURRENT = "outcomes JOIN items USING (key) WHERE NOT again"


class DuplicateNames(BatchError):
    """Two items have the same name. `first` and `second` are their numbers."""

    def __init__(self, first: int, second: int, name: str) -> None:
        super().__init__(f"items {first} and {second} are both called {name!r}; names must differ")
        self.first, self.second, self.name = first, second, name


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An outcome as it is stored: the values that are summed up, and the line of the results file."""

    key: str
    ending: str
    error: str | None
    seconds: float
    tokens: int
    cost_usd: float | None
    unpriced: int
    line: str


@dataclass(frozen=True, slots=True)
class EndingTotals:
    """Sums over all outcomes with the same ending."""

    count: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0


class Ledger:
    """One batch on disk. Raises `BatchInUse` if another process has it, and `NotWritable` if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _take_lock(path.with_suffix(".lock"))
        try:
            with _write_errors(path):
                os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
                self._db = sqlite3.connect(path, isolation_level=None)
                self._open()
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Close the file and release its lock."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._lock.release()

    def begin(self, items: Iterable[tuple[str, str, float]]) -> int:
        """Record hash, name and lease of all items, in order; return their number. Raises `DuplicateNames`."""
        count = 0
        with self._transaction():
            self._db.execute("DELETE FROM items")
            self._db.execute("CREATE TEMP TABLE IF NOT EXISTS same (digest TEXT PRIMARY KEY, count INTEGER)")
            self._db.execute("DELETE FROM same")
            upsert = "INSERT INTO same VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1 RETURNING count"
            for digest, name, lease in items:
                count += 1
                (times,) = self._db.execute(upsert, (digest,)).fetchone()
                row = (count, fingerprint.repeated(digest, times), name, lease)
                try:
                    self._db.execute("INSERT INTO items VALUES (?, ?, ?, ?)", row)
                except sqlite3.IntegrityError:
                    (first,) = self._db.execute("SELECT number FROM items WHERE name = ?", (name,)).fetchone()
                    raise DuplicateNames(first, count, name) from None
            # The workers of earlier leases are gone: this process has the lock.
            self._db.execute("UPDATE leases SET until = NULL")
        return count

    def forget(self, endings: Iterable[str]) -> int:
        """Mark the items with these endings as unfinished; return their number."""
        values = [*endings]
        placeholders = ", ".join("?" * len(values))
        with self._transaction():
            self._db.execute("UPDATE leases SET losses = 0")
            sql = f"UPDATE outcomes SET again = 1 WHERE ending IN ({placeholders}) AND key IN (SELECT key FROM items)"
            return self._db.execute(sql, values).rowcount

    def unfinished(self, number: int) -> tuple[str, float] | None:
        """Return key and lease of an item that has not ended; None if it has."""
        sql = (
            "SELECT items.key, items.lease FROM items LEFT JOIN outcomes ON outcomes.key = items.key AND NOT again "
            "WHERE number = ? AND outcomes.key IS NULL"
        )
        row = self._db.execute(sql, (number,)).fetchone()
        return (row[0], row[1]) if row is not None else None

    def lease(self, key: str, seconds: float) -> None:
        """Record that a worker has an item, and until when."""
        sql = "INSERT INTO leases (key, until) VALUES (?, ?) ON CONFLICT DO UPDATE SET until = excluded.until"
        with _write_errors(self.path):
            self._db.execute(sql, (key, time.time() + seconds))

    def lose(self, key: str) -> int:
        """Record that an item was lost; return how often that has happened."""
        sql = (
            "INSERT INTO leases (key, losses) VALUES (?, 1) "
            "ON CONFLICT DO UPDATE SET losses = losses + 1, until = NULL RETURNING losses"
        )
        with _write_errors(self.path):
            (losses,) = self._db.execute(sql, (key,)).fetchone()
        return int(losses)

    def leased(self) -> int:
        """Return the number of leases that have not ended."""
        (count,) = self._db.execute("SELECT COUNT(*) FROM leases WHERE until > ?", (time.time(),)).fetchone()
        return int(count)

    def write(self, entry: LedgerEntry) -> bool:
        """Record an outcome; return False, and change nothing, if the item has one."""
        row = (entry.key, entry.ending, entry.error, entry.seconds, entry.tokens, entry.cost_usd, entry.unpriced)
        sql = (
            "INSERT INTO outcomes (key, ending, error, seconds, tokens, cost_usd, unpriced, ended, line) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET ending = excluded.ending, "
            "error = excluded.error, seconds = excluded.seconds, tokens = excluded.tokens, "
            "cost_usd = excluded.cost_usd, unpriced = excluded.unpriced, ended = excluded.ended, "
            "line = excluded.line, again = 0 WHERE again"
        )
        with self._transaction():
            new = self._db.execute(sql, (*row, time.time(), entry.line)).rowcount == 1
            self._db.execute("DELETE FROM leases WHERE key = ?", (entry.key,))
            if new:
                self.spend(entry.key, entry.cost_usd)
        return new

    def spend(self, key: str, usd: float | None) -> None:
        """Add the cost of an attempt at an item, if it is known."""
        sql = "INSERT INTO spent VALUES (?, ?) ON CONFLICT DO UPDATE SET usd = usd + excluded.usd"
        if usd is not None:
            with _write_errors(self.path):
                self._db.execute(sql, (key, usd))

    def spent(self) -> float | None:
        """Return the cost of all attempts at the items of this batch, also of items that are marked as unfinished."""
        (usd,) = self._db.execute("SELECT SUM(usd) FROM spent JOIN items USING (key)").fetchone()
        return None if usd is None else float(usd)

    def line_state(self, key: str, name: str, number: object) -> str:
        """Return the state of a line of the results file.

        `current`; `open`: the ledger has no outcome; `again`: the item is to be run again; `moved`: the item has
        another name or number now; `replaced`: the item with this name has changed; `other`: not in this batch.
        """
        sql = "SELECT outcomes.key, again, name, number FROM items LEFT JOIN outcomes USING (key) WHERE items.key = ?"
        row = self._db.execute(sql, (key,)).fetchone()
        if row is not None and row[1]:
            return "again"
        if row is not None:
            return "open" if row[0] is None else "current" if row[2:] == (name, number) else "moved"
        named = self._db.execute("SELECT 1 FROM items WHERE name = ?", (name,)).fetchone()
        return "replaced" if named is not None else "other"

    def begin_lines(self) -> None:
        """Clear the set of items that have a line in the results file."""
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS written (key TEXT PRIMARY KEY)")
        self._db.execute("DELETE FROM written")

    def note_line(self, key: str) -> bool:
        """Add an item to those that have a line in the results file; return False if it was there already."""
        return self._db.execute("INSERT OR IGNORE INTO written VALUES (?)", (key,)).rowcount == 1

    def missing_lines(self) -> Iterator[tuple[str, str, int]]:
        """Yield the lines that the results file lacks, with the current names and numbers of their items."""
        sql = f"SELECT line, name, number FROM {_CURRENT} AND key NOT IN (SELECT key FROM written) ORDER BY ended"
        yield from self._db.execute(sql)

    def totals(self) -> dict[str, EndingTotals]:
        """Return the sums over the outcomes of this batch, by ending."""
        sql = (
            "SELECT ending, COUNT(*), TOTAL(seconds), COALESCE(SUM(tokens), 0), SUM(cost_usd), "
            f"COALESCE(SUM(unpriced), 0) FROM {_CURRENT} GROUP BY ending"
        )
        return {row[0]: EndingTotals(*row[1:]) for row in self._db.execute(sql)}

    def errors(self, limit: int) -> list[tuple[str, int, str]]:
        """Return the most frequent errors: the message, its count, and the name of one item."""
        sql = (
            f"SELECT COALESCE(error, ending) AS message, COUNT(*) AS count, MIN(name) FROM {_CURRENT} "
            "AND ending IN ('Failed', 'Lost') GROUP BY message ORDER BY count DESC, message LIMIT ?"
        )
        return [(row[0], row[1], row[2]) for row in self._db.execute(sql, (limit,))]

    def _open(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise BatchError(f"{self.path} was written by a later version of rlm; use another --output")
        migration = {0: f"{_TABLES} {_SPENT}", 1: f"{_SPENT} {_MIGRATE_SPENT}"}.get(version)
        if migration is not None:
            self._db.executescript(f"BEGIN; {migration} PRAGMA user_version = {VERSION}; COMMIT;")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with _write_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk may have rolled it back already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def ledger_path(home: Path, results: Path) -> Path:
    """Return the path of the ledger for a results file, which is the same for all paths that lead to that file."""
    path = results.resolve()
    return home / "batches" / f"{path.stem[:40]}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.db"


def _take_lock(path: Path) -> FileLock:
    lock = FileLock(path)
    if not lock.acquire(timeout=0):
        holder = path.read_bytes()[:20].decode("ascii", "replace").strip()
        owner = f"process {holder}" if holder else "another process"
        raise BatchInUse(f"{owner} is running this batch; wait for it, end it, or use another --output")
    os.ftruncate(lock.fileno(), 0)
    os.pwrite(lock.fileno(), str(os.getpid()).encode("ascii"), 0)
    return lock


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        full = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR"))
        raise not_writable(f"the ledger {path}", error, _ADVICE, full=full) from error
    except OSError as error:
        raise not_writable(f"the ledger {path}", error, _ADVICE) from error
