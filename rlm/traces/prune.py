"""Removing old runs, by age and by size. Files that are being written are left alone."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .paths import databases, folder, lock_database, lock_path, writer_lives
from .reader import open_to_read
from .recorder import connect
from .runs import RunRecord, load

_ROW_BYTES = 50
_REFERENCE = re.compile(r'"\$body":"([0-9a-f]{40})"')


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    removed: tuple[RunRecord, ...]
    before: int
    """Bytes of all files."""

    after: int
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Contents:
    """What one file holds, and how much of it would be left without some of its runs."""

    size: int
    needs: dict[str, set[str]]
    """The bodies of each run."""

    event_bytes: dict[str, int]
    body_bytes: dict[str, int]
    uses: Counter[str] = field(default_factory=Counter)
    freed: int = 0

    def __post_init__(self) -> None:
        for needed in self.needs.values():
            self.uses.update(needed)

    def drop(self, run: str) -> None:
        """Leave out a run, and the bodies that no other run needs."""
        self.freed += self.event_bytes.pop(run, 0)
        for body in self.needs.pop(run, ()):
            self.uses[body] -= 1
            if not self.uses[body]:
                self.freed += self.body_bytes.get(body, 0)

    @property
    def left(self) -> int:
        """Bytes that stay, about. A file without runs goes whole."""
        return max(0, self.size - self.freed) if self.needs else 0


def prune(
    home: Path | str | None = None,
    *,
    older: float | None = None,
    keep_bytes: int | None = None,
    dry_run: bool = False,
    now: float | None = None,
) -> Pruned:
    """Remove runs that started more than `older` seconds ago, and the oldest until all need at most `keep_bytes`."""
    now = time.time() if now is None else now
    place = folder(home)
    files = databases(place)
    live = {path for path in files if writer_lives(path)}
    before = sum(map(_size, files))
    runs = load(home)
    trees = _trees([run for run in runs if run.file.path not in live])
    contents = {path: _contents(path) for path in {tree[0].file.path for tree in trees}}
    written = sum(_size(path) for path in files if path not in contents)
    chosen = []
    for tree in trees:
        estimate = written + sum(one.left for one in contents.values())
        old = older is not None and tree[0].started < now - older
        if old or (keep_bytes is not None and estimate > keep_bytes):
            chosen.append(tree)
            for run in tree:
                contents[run.file.path].drop(run.id)
    estimate = written + sum(one.left for one in contents.values())
    removed = tuple(run for tree in chosen for run in tree)
    notes = [f"{path.name} is being written, and was left alone." for path in sorted(live) if _size(path)]
    for run in runs:
        run.file.close()
    if dry_run:
        return Pruned(removed, before, estimate, tuple(notes))
    for path in {run.file.path for run in removed}:
        notes += _remove(path, [run.id for run in removed if run.file.path == path])
    return Pruned(removed, before, sum(map(_size, databases(place))), tuple(notes))


def _trees(runs: list[RunRecord]) -> list[list[RunRecord]]:
    """Runs with their child runs, the oldest first."""
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
        needs: dict[str, set[str]] = {run: set() for run in ids.values()}
        for run, meta in connection.execute("SELECT run, meta FROM events"):
            needs[ids[run]].update(_REFERENCE.findall(meta))
            events[ids[run]] += len(meta) + _ROW_BYTES
        sizes = connection.execute(
            f"SELECT lower(hex(hash)), {_ROW_BYTES} + coalesce(length(bytes), "
            "(SELECT sum(length(pieces.bytes)) FROM pieces WHERE body = bodies.number), 0) FROM bodies"
        )
        return _Contents(_size(path), needs, dict(events), dict(sizes.fetchall()))


def _remove(path: Path, ids: list[str]) -> list[str]:
    """Remove runs from one file; the file itself, when nothing is left."""
    lock = lock_database(path)
    if lock is None:
        return [f"{path.name} is being written, and was left alone."]
    try:
        with contextlib.closing(connect(path)) as connection:
            total = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
            if total > len(ids):
                _delete(connection, ids)
                return []
        for one in _files(path):
            one.unlink(missing_ok=True)
        return []
    except (sqlite3.Error, OSError) as error:
        return [f"{path.name}: {error}"]
    finally:
        lock.release()


def _delete(connection: sqlite3.Connection, ids: list[str]) -> None:
    connection.execute("CREATE TEMP TABLE going (id TEXT PRIMARY KEY)")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO going VALUES (?)", [(run,) for run in ids])
    connection.execute("DELETE FROM events WHERE run IN (SELECT number FROM runs JOIN going USING (id))")
    connection.execute("DELETE FROM runs WHERE id IN (SELECT id FROM going)")
    needed: set[str] = set()
    for (meta,) in connection.execute("SELECT meta FROM events"):
        needed.update(_REFERENCE.findall(meta))
    found = connection.execute("SELECT number, hash FROM bodies").fetchall()
    gone = [(number,) for number, digest in found if digest.hex() not in needed]
    connection.executemany("DELETE FROM pieces WHERE body = ?", gone)
    connection.executemany("DELETE FROM bodies WHERE number = ?", gone)
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _files(path: Path) -> tuple[Path, ...]:
    return path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"), lock_path(path)


def _size(path: Path) -> int:
    total = 0
    for one in _files(path):
        with contextlib.suppress(FileNotFoundError):
            total += one.stat().st_size
    return total
