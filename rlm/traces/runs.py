"""All runs on record: `load()` finds them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

from .default_writer import catch_up
from .paths import databases, folder
from .reader import EmptyFile, TraceFile
from .records import frame
from .run import COLUMNS, RunRecord, UnknownRun, record
from .schema import NewerFile

__all__ = ["RunRecord", "Runs", "UnknownRun", "find", "load"]


class Runs(Sequence[RunRecord]):
    """Runs, the newest first."""

    def __init__(self, records: Iterable[RunRecord], skipped: Sequence[str] = ()) -> None:
        self._records = sorted(records, key=lambda run: (-run.started, run.number))
        self.skipped = tuple(skipped)
        """Files that could not be read, and why."""

    @property
    def roots(self) -> Runs:
        """Only runs that no other run started."""
        return Runs([run for run in self._records if run.parent is None], self.skipped)

    def where(self, *, ending: str | None = None, search: str | None = None) -> Runs:
        """Only runs with this ending, and with this text in their id, name, task, model, reason or answer."""
        kept = self._records
        if ending is not None:
            kept = [run for run in kept if run.ending == ending.lower()]
        if search is not None:
            kept = [run for run in kept if search.casefold() in _searched(run)]
        return Runs(kept, self.skipped)

    def run(self, prefix: str) -> RunRecord:
        """The one run whose id begins like this. Raises `UnknownRun`."""
        found = [run for run in self._records if run.id.startswith(prefix)]
        exact = [run for run in found if run.id == prefix]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found:
            raise UnknownRun(f"no run on record has an id that begins with {prefix!r}")
        ids = ", ".join(run.id for run in found[:5])
        raise UnknownRun(f"{len(found)} runs have ids that begin with {prefix!r}: {ids}; give more of it")

    def iterations(self) -> Any:
        """The iterations of all these runs as one data frame. Needs pandas."""
        return _frame_of(self, lambda run: run.iterations)

    def calls(self) -> Any:
        """The calls from cells to the host of all these runs as one data frame. Needs pandas."""
        return _frame_of(self, lambda run: run.calls)

    def model_calls(self) -> Any:
        """The questions to models of all these runs as one data frame. Needs pandas."""
        return _frame_of(self, lambda run: run.model_calls)

    def to_pandas(self) -> Any:
        """A data frame, one row a run. Needs pandas."""
        import pandas

        table = pandas.DataFrame([run.to_dict() for run in self._records])
        for name in ("started", "ended"):
            if name in table:
                table[name] = pandas.to_datetime(table[name].astype("float64"), unit="s", utc=True)
        return table

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> RunRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> RunRecord | Runs:
        if isinstance(index, slice):
            return Runs(self._records[index], self.skipped)
        return self._records[index]

    def __repr__(self) -> str:
        return f"Runs({len(self)})"

    def _repr_html_(self) -> str:
        from .notebook_html import runs_html

        return runs_html(self)


def load(home: Path | str | None = None) -> Runs:
    """All runs on record, the newest first. What they did is read when it is asked for."""
    records: list[RunRecord] = []
    skipped: list[str] = []
    catch_up(folder(home))
    for path in databases(folder(home)):
        file = TraceFile(path)
        live = file.live  # before the rows: a run that ends in between has ended, and is not unfinished
        try:
            rows = file.query(f"SELECT {', '.join(COLUMNS)} FROM runs")
        except EmptyFile:
            continue
        except (sqlite3.Error, NewerFile) as error:
            if path.exists():  # it may have been pruned since the directory was read
                skipped.append(f"{path.name}: {error}")
            continue
        records += [record(file, row, live) for row in rows]
    return Runs(records, skipped)


def find(prefix: str, home: Path | str | None = None) -> RunRecord:
    """The one run whose id begins like this. Raises `UnknownRun`."""
    return load(home).run(prefix)


def _searched(run: RunRecord) -> str:
    parts = (run.id, run.name, run.task, run.model, run.reason, run.answer)
    return "\n".join(part for part in parts if part).casefold()


def _frame_of(runs: Runs, records: Any) -> Any:
    import pandas

    tables = [frame(found, run=[run.id] * len(found)) for run in runs if (found := records(run))]
    return pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame()
