"""Removal of old runs, by age and by total size. Databases that a process is writing to are left alone."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .notes import Notes
from .paths import databases, lock_database, lock_path, traces_folder, writer_is_alive
from .reader import open_to_read
from .recorder import connect
from .runs import RunRecord, load

_ROW_BYTES = 50
_REFERENCE = re.compile(r'"\$body":"([0-9a-f]{40})"')


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The runs that were removed, or would be; sizes before and after; and notes on files that were left alone."""

    removed: tuple[RunRecord, ...]
    before: int
    """Bytes of all files."""

    after: int
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Contents:
    """The runs and blobs of one database, and its estimated size without some of its runs."""

    size: int
    blobs: dict[str, set[str]]
    """The hashes of the blobs of each run."""

    event_bytes: dict[str, int]
    blob_bytes: dict[str, int]
    uses: Counter[str] = field(default_factory=Counter)
    freed: int = 0

    def __post_init__(self) -> None:
        for hashes in self.blobs.values():
            self.uses.update(hashes)

    def drop(self, run: str) -> None:
        """Subtract a run, and the blobs that no other run uses."""
        self.freed += self.event_bytes.pop(run, 0)
        for digest in self.blobs.pop(run, ()):
            self.uses[digest] -= 1
            if not self.uses[digest]:
                self.freed += self.blob_bytes.get(digest, 0)

    @property
    def remaining(self) -> int:
        """The estimated size without the dropped runs. A file without runs is removed."""
        return max(0, self.size - self.freed) if self.blobs else 0


def prune(
    home: Path | str | None = None,
    *,
    older: float | None = None,
    keep_bytes: int | None = None,
    dry_run: bool = False,
    now: float | None = None,
) -> PruneResult:
    """Remove runs that started over `older` seconds ago, and the oldest runs until at most `keep_bytes` are used."""
    now = time.time() if now is None else now
    folder = traces_folder(home)
    files = databases(folder)
    live = {path for path in files if writer_is_alive(path)}
    before = sum(map(_size, files))
    runs = load(home)
    trees = _trees([run for run in runs if run.file.path not in live])
    contents = {path: _contents(path) for path in {tree[0].file.path for tree in trees}}
    kept = sum(_size(path) for path in files if path not in contents)

    def estimate() -> int:
        return kept + sum(content.remaining for content in contents.values())

    chosen = []
    for tree in trees:
        old = older is not None and tree[0].started < now - older
        if old or (keep_bytes is not None and estimate() > keep_bytes):
            chosen.append(tree)
            for run in tree:
                contents[run.file.path].drop(run.id)
    removed = tuple(run for tree in chosen for run in tree)
    notes = [f"{path.name} is being written to and was left alone." for path in sorted(live) if _size(path)]
    for run in runs:
        run.file.close()
    if dry_run:
        return PruneResult(removed, before, estimate(), tuple(notes))
    for path in {run.file.path for run in removed}:
        notes += _remove(path, [run.id for run in removed if run.file.path == path])
    with contextlib.suppress(sqlite3.Error, OSError):
        left = {run.id for run in load(home)}
        Notes(home).remove(run.id for run in removed if run.id not in left)
    return PruneResult(removed, before, sum(map(_size, databases(folder))), tuple(notes))


def _trees(runs: list[RunRecord]) -> list[list[RunRecord]]:
    """Group runs with their child runs, the oldest first."""
    known = {run.id: run for run in runs}
    trees: dict[str, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: (run.depth, run.started)):
        root, seen = run, {run.id}
        while root.parent in known and root.parent not in seen:
            root = known[root.parent]
            seen.add(root.id)
        trees.setdefault(root.id, []).append(run)
    return sorted(trees.values(), key=lambda tree: tree[0].started)


def _contents(path: Path) -> _Contents:
    events: Counter[str] = Counter()
    with contextlib.closing(open_to_read(path)) as connection:
        ids = dict(connection.execute("SELECT number, id FROM runs").fetchall())
        blobs: dict[str, set[str]] = {run: set() for run in ids.values()}
        for run, meta in connection.execute("SELECT run, meta FROM events"):
            blobs[ids[run]].update(_REFERENCE.findall(meta))
            events[ids[run]] += len(meta) + _ROW_BYTES
        sizes = connection.execute(
            f"SELECT lower(hex(hash)), {_ROW_BYTES} + coalesce(length(bytes), "
            "(SELECT sum(length(pieces.bytes)) FROM pieces WHERE body = bodies.number), 0) FROM bodies"
        )
        return _Contents(_size(path), blobs, dict(events), dict(sizes.fetchall()))


def _remove(path: Path, ids: list[str]) -> list[str]:
    """Remove runs from one database, and the database itself if none is left; return notes on failures."""
    lock = lock_database(path)
    if lock is None:
        return [f"{path.name} is being written to and was left alone."]
    try:
        with contextlib.closing(connect(path)) as connection:
            total = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
            if total > len(ids):
                _delete(connection, ids)
                return []
        for file in _files(path):
            file.unlink(missing_ok=True)
        return []
    except (sqlite3.Error, OSError) as error:
        return [f"{path.name}: {error}"]
    finally:
        lock.release()


def _delete(connection: sqlite3.Connection, ids: list[str]) -> None:
    connection.execute("CREATE TEMP TABLE removed (id TEXT PRIMARY KEY)")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO removed VALUES (?)", [(run,) for run in ids])
    connection.execute("DELETE FROM events WHERE run IN (SELECT number FROM runs JOIN removed USING (id))")
    connection.execute("DELETE FROM runs WHERE id IN (SELECT id FROM removed)")
    used: set[str] = set()
    for (meta,) in connection.execute("SELECT meta FROM events"):
        used.update(_REFERENCE.findall(meta))
    blobs = connection.execute("SELECT number, hash FROM bodies").fetchall()
    unused = [(number,) for number, digest in blobs if digest.hex() not in used]
    connection.executemany("DELETE FROM pieces WHERE body = ?", unused)
    connection.executemany("DELETE FROM bodies WHERE number = ?", unused)
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _files(path: Path) -> tuple[Path, ...]:
    return path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"), lock_path(path)


def _size(path: Path) -> int:
    total = 0
    for file in _files(path):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
