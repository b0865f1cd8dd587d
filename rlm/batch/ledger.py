"""The ledger of a batch: which items it has, who works on them, and what became of each. SQLite, for one driver alone.

An outcome is written once: here first, with the line that the results file gets, and then there. Whatever moment a
driver is killed at, the next one finds here what is done, and knows from both which lines are missing.
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
from .errors import BatchError, BatchTaken, unwritable

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
# What each item has cost, in all its attempts.
_SPENT = "CREATE TABLE spent (key TEXT PRIMARY KEY, usd REAL NOT NULL) WITHOUT ROWID;"
_SPENT_BEFORE = "INSERT INTO spent SELECT key, cost_usd FROM outcomes WHERE cost_usd IS NOT NULL;"
_ELSEWHERE = "see to it that it can be, or name another folder for ledgers and records with RLM_HOME"
_CURRENT = "outcomes JOIN items USING (key) WHERE NOT again"


class SameName(BatchError):
    """Two items have one name. `first` and `second` are their numbers."""

    def __init__(self, first: int, second: int, name: str) -> None:
        super().__init__(f"items {first} and {second} are both called {name!r}; their lines could not be told apart")
        self.first, self.second, self.name = first, second, name


@dataclass(frozen=True, slots=True)
class Entry:
    """An outcome as the ledger keeps it: what is added up, and the line of the results file."""

    key: str
    ending: str
    error: str | None
    seconds: float
    tokens: int
    cost_usd: float | None
    unpriced: int
    line: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What all outcomes of one ending come to."""

    count: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0


class Ledger:
    """One batch on disk. Raises `BatchTaken` if another process has it, and `NoRoom` when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _room(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _take_lock(path.with_suffix(".lock"))
        try:
            with _room(path):
                os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
                self._db = sqlite3.connect(path, isolation_level=None)
                self._open()
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Close the file and let others have it."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._lock.release()

    def begin(self, items: Iterable[tuple[str, str, float]]) -> int:
        """Take down what the batch is made of now: hash, name and lease of each item, in order; how many there are."""
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
                    raise SameName(first, count, name) from None
            # Whoever held a lease is gone: this process has the lock.
            self._db.execute("UPDATE leases SET until = NULL")
        return count

    def forget(self, endings: Iterable[str]) -> int:
        """Have the items that ended so done again; how many these are."""
        marks = [*endings]
        places = ", ".join("?" * len(marks))
        with self._transaction():
            self._db.execute("UPDATE leases SET losses = 0")
            sql = f"UPDATE outcomes SET again = 1 WHERE ending IN ({places}) AND key IN (SELECT key FROM items)"
            return self._db.execute(sql, marks).rowcount

    def to_do(self, number: int) -> tuple[str, float] | None:
        """Key and lease of an item that is not done; None if it is."""
        sql = (
            "SELECT items.key, items.lease FROM items LEFT JOIN outcomes ON outcomes.key = items.key AND NOT again "
            "WHERE number = ? AND outcomes.key IS NULL"
        )
        row = self._db.execute(sql, (number,)).fetchone()
        return (row[0], row[1]) if row is not None else None

    def lease(self, key: str, seconds: float) -> None:
        """Note that an item is with a worker, and until when."""
        sql = "INSERT INTO leases (key, until) VALUES (?, ?) ON CONFLICT DO UPDATE SET until = excluded.until"
        with _room(self.path):
            self._db.execute(sql, (key, time.time() + seconds))

    def lose(self, key: str) -> int:
        """Note that an item was lost; how often that has happened to it."""
        sql = (
            "INSERT INTO leases (key, losses) VALUES (?, 1) "
            "ON CONFLICT DO UPDATE SET losses = losses + 1, until = NULL RETURNING losses"
        )
        with _room(self.path):
            (losses,) = self._db.execute(sql, (key,)).fetchone()
        return int(losses)

    def leased(self) -> int:
        """How many items are with workers whose leases have not ended."""
        (count,) = self._db.execute("SELECT COUNT(*) FROM leases WHERE until > ?", (time.time(),)).fetchone()
        return int(count)

    def write(self, entry: Entry) -> bool:
        """Write an outcome down; False if the item had one already, which then stays."""
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
        """Note what an attempt at an item has cost, if that is known."""
        sql = "INSERT INTO spent VALUES (?, ?) ON CONFLICT DO UPDATE SET usd = usd + excluded.usd"
        if usd is not None:
            with _room(self.path):
                self._db.execute(sql, (key, usd))

    def spent(self) -> float | None:
        """What the items of this batch have cost in all their attempts, also where they are to be done again."""
        (usd,) = self._db.execute("SELECT SUM(usd) FROM spent JOIN items USING (key)").fetchone()
        return None if usd is None else float(usd)

    def standing(self, key: str, name: str, number: object) -> str:
        """What a line of the results file is.

        `current`; `open`: there is no outcome here; `again`: it is to be done again; `moved`: the item has another
        name or number now; `replaced`: an item of this name has changed; `other`: it is not of this batch.
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
        """Forget which items have a line in the results file: they are noted anew."""
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS written (key TEXT PRIMARY KEY)")
        self._db.execute("DELETE FROM written")

    def note_line(self, key: str) -> bool:
        """Note for `missing_lines` that an item has a line in the results file; False if it had one already."""
        return self._db.execute("INSERT OR IGNORE INTO written VALUES (?)", (key,)).rowcount == 1

    def missing_lines(self) -> Iterator[tuple[str, str, int]]:
        """The lines of outcomes that the results file does not have, with the names and numbers of their items now."""
        sql = f"SELECT line, name, number FROM {_CURRENT} AND key NOT IN (SELECT key FROM written) ORDER BY ended"
        yield from self._db.execute(sql)

    def totals(self) -> dict[str, Totals]:
        """What the outcomes of this batch come to, by ending."""
        sql = (
            "SELECT ending, COUNT(*), TOTAL(seconds), COALESCE(SUM(tokens), 0), SUM(cost_usd), "
            f"COALESCE(SUM(unpriced), 0) FROM {_CURRENT} GROUP BY ending"
        )
        return {row[0]: Totals(*row[1:]) for row in self._db.execute(sql)}

    def errors(self, most: int) -> list[tuple[str, int, str]]:
        """The commonest errors: what was said, how often, and an item it was said of."""
        sql = (
            f"SELECT COALESCE(error, ending) AS said, COUNT(*) AS count, MIN(name) FROM {_CURRENT} "
            "AND ending IN ('Failed', 'Lost') GROUP BY said ORDER BY count DESC, said LIMIT ?"
        )
        return [(row[0], row[1], row[2]) for row in self._db.execute(sql, (most,))]

    def _open(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise BatchError(f"{self.path} was written by a later version of rlm; name another --output")
        made = {0: f"{_TABLES} {_SPENT}", 1: f"{_SPENT} {_SPENT_BEFORE}"}.get(version)
        if made is not None:
            self._db.executescript(f"BEGIN; {made} PRAGMA user_version = {VERSION}; COMMIT;")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with _room(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk may have rolled it back already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def ledger_path(home: Path, results: Path) -> Path:
    """Where the ledger of a batch is: there is one for each results file, by whatever path it is named."""
    place = results.resolve()
    return home / "batches" / f"{place.stem[:40]}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}.db"


def _take_lock(path: Path) -> FileLock:
    lock = FileLock(path)
    if not lock.acquire(timeout=0):
        holder = path.read_bytes()[:20].decode("ascii", "replace").strip()
        whose = f"process {holder}" if holder else "another process"
        raise BatchTaken(f"{whose} is working on this batch; wait for it, or end it, or name another --output")
    os.ftruncate(lock.fileno(), 0)
    os.pwrite(lock.fileno(), str(os.getpid()).encode("ascii"), 0)
    return lock


@contextlib.contextmanager
def _room(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        full = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR"))
        raise unwritable(f"the ledger {path}", error, _ELSEWHERE, full=full) from error
    except OSError as error:
        raise unwritable(f"the ledger {path}", error, _ELSEWHERE) from error
