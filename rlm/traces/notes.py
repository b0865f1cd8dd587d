"""Notes and labels that people put on runs, in `RLM_HOME/notes.db`. Traces themselves are never changed."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..files import home as default_home
from ..redaction import Redactor

MAX_CHARS = 10_000
MAX_LABELS = 20
MAX_LABEL_CHARS = 40
_TABLE = "CREATE TABLE IF NOT EXISTS notes (run TEXT PRIMARY KEY, text TEXT, labels TEXT, changed REAL) WITHOUT ROWID"


class NoteRefused(RlmError, ValueError):
    """A note is too long, or a label is not one."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a run. The labels `right` and `wrong` say whether its answer is."""

    text: str = ""
    labels: tuple[str, ...] = ()
    changed: float | None = None
    """When it was written, in seconds since 1970."""

    def to_dict(self) -> dict[str, Any]:
        """Return the note as plain JSON values."""
        return {**asdict(self), "labels": list(self.labels)}


class Notes:
    """The notes in one home. Any thread and any process may write one; the last one stays."""

    def __init__(self, home: Path | str | None = None) -> None:
        self.path = (default_home() if home is None else Path(home)).absolute() / "notes.db"

    def all(self) -> dict[str, Note]:
        """Return the notes by the ids of their runs."""
        if not self.path.exists():
            return {}
        with self._open() as connection:
            rows = connection.execute("SELECT run, text, labels, changed FROM notes").fetchall()
        return {row[0]: Note(row[1], tuple(json.loads(row[2])), row[3]) for row in rows}

    def write(self, run_id: str, text: str, labels: Sequence[str] = ()) -> Note:
        """Replace the note on a run; without text and labels it is removed. Raises `NoteRefused`."""
        note = _checked(text, labels)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.touch(mode=0o600)
        with self._open() as connection:
            if note.text or note.labels:
                row = (run_id, note.text, json.dumps(note.labels), note.changed)
                connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)", row)
            else:
                connection.execute("DELETE FROM notes WHERE run = ?", (run_id,))
        return note

    def remove(self, run_ids: Iterable[str]) -> None:
        """Remove the notes on runs that are no longer there."""
        if self.path.exists():
            with self._open() as connection:
                connection.executemany("DELETE FROM notes WHERE run = ?", [(run_id,) for run_id in run_ids])

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path, timeout=5.0)) as connection, connection:
            connection.execute(_TABLE)
            yield connection


def _checked(text: str, labels: Sequence[str]) -> Note:
    if not isinstance(text, str):
        raise NoteRefused("a note is a text")
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        raise NoteRefused("labels are a list of texts")
    redactor = Redactor()
    text = redactor.text(_storable(text).strip())
    names = tuple(dict.fromkeys(redactor.text(" ".join(_storable(label).split())) for label in labels))
    names = tuple(name for name in names if name)
    if len(text) > MAX_CHARS:
        raise NoteRefused(f"the note has {len(text):,} characters; it may have {MAX_CHARS:,}")
    if len(names) > MAX_LABELS:
        raise NoteRefused(f"a run may have {MAX_LABELS} labels, not {len(names)}")
    for name in names:
        if len(name) > MAX_LABEL_CHARS or "," in name:
            raise NoteRefused(f"a label has at most {MAX_LABEL_CHARS} characters and no comma: {name[:60]!r}")
    return Note(text, names, time.time())


def _storable(text: str) -> str:
    """Return the text without lone surrogates, which SQLite does not store."""
    return text.encode("utf-8", "replace").decode()
