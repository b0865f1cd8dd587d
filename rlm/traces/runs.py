"""All recorded runs, and the search for one of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from .paths import databases, traces_folder
from .reader import EmptyDatabase, TraceFile
from .records import data_frame
from .run import COLUMNS, RunRecord, UnknownRun, run_record
from .schema import NewerVersion
from .writer import flush_writers

__all__ = ["RunRecord", "Runs", "UnknownRun", "find", "load"]


class Runs(Sequence[RunRecord]):
    """Recorded runs, the newest first."""

    def __init__(self, records: Iterable[RunRecord], skipped: Sequence[str] = ()) -> None:
        self._records = sorted(records, key=lambda run: (-run.started, run.number))
        self.skipped = tuple(skipped)
        """The files that could not be read, and why."""

    @property
    def roots(self) -> Runs:
        """The runs that are not child runs."""
        return Runs([run for run in self._records if run.parent is None], self.skipped)

    def where(self, *, ending: str | None = None, search: str | None = None) -> Runs:
        """Return the runs with this ending, and with this text in id, name, task, model, reason or answer."""
        runs = self._records
        if ending is not None:
            runs = [run for run in runs if run.ending == ending.lower()]
        if search is not None:
            runs = [run for run in runs if search.casefold() in _searchable_text(run)]
        return Runs(runs, self.skipped)

    def run(self, prefix: str) -> RunRecord:
        """Return the run whose id has this prefix. Raises `UnknownRun` if there is none, or more than one."""
        matches = [run for run in self._records if run.id.startswith(prefix)]
        matches = [run for run in matches if run.id == prefix] or matches
        if len(matches) == 1:
            return matches[0]
        if not matches:
            raise UnknownRun(f"no recorded run has an id that begins with {prefix!r}")
        ids = ", ".join(run.id for run in matches[:5])
        raise UnknownRun(f"{len(matches)} runs have ids that begin with {prefix!r}: {ids}; give more characters")

    def iterations(self) -> Any:
        """Return the iterations of these runs as one data frame. Needs pandas."""
        return _concatenate(self, lambda run: run.iterations)

    def calls(self) -> Any:
        """Return the host calls of these runs as one data frame. Needs pandas."""
        return _concatenate(self, lambda run: run.calls)

    def model_calls(self) -> Any:
        """Return the requests to models of these runs as one data frame. Needs pandas."""
        return _concatenate(self, lambda run: run.model_calls)

    def to_pandas(self) -> Any:
        """Return a data frame with one row for each run. Needs pandas."""
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
        from .notebook_view.html import runs_html

        return runs_html(self)


def load(home: Path | str | None = None) -> Runs:
    """Return all recorded runs, the newest first. Their events are read on demand."""
    records: list[RunRecord] = []
    skipped: list[str] = []
    flush_writers(home)
    for path in databases(traces_folder(home)):
        file = TraceFile(path)
        live = file.live  # before the rows: a run that ends in between is not unfinished
        try:
            rows = file.query(f"SELECT {', '.join(COLUMNS)} FROM runs")
        except EmptyDatabase:
            continue
        except (sqlite3.Error, NewerVersion) as error:
            if path.exists():  # it may have been pruned since the directory was read
                skipped.append(f"{path.name}: {error}")
            continue
        records += [run_record(file, row, live) for row in rows]
    return Runs(_with_resumptions(records), skipped)


def _with_resumptions(records: list[RunRecord]) -> list[RunRecord]:
    """Return the runs, each with the last one that resumed it: what was unfinished is `resumed` then."""
    resumed: dict[str, str] = {}
    for run in sorted(records, key=lambda run: run.started):
        if run.resumed_from is not None and "forked_at" not in (run.beginning.get("task") or {}):
            resumed[run.resumed_from] = run.id
    return [
        run
        if (by := resumed.get(run.id)) is None
        else replace(run, resumed_by=by, ending="resumed" if run.ending == "unfinished" else run.ending)
        for run in records
    ]


def find(prefix: str, home: Path | str | None = None) -> RunRecord:
    """Return the run whose id has this prefix. Raises `UnknownRun` if there is none, or more than one."""
    return load(home).run(prefix)


def _searchable_text(run: RunRecord) -> str:
    parts = (run.id, run.name, run.task, run.model, run.reason, run.answer)
    return "\n".join(part for part in parts if part).casefold()


def _concatenate(runs: Runs, records: Any) -> Any:
    import pandas

    tables = [data_frame(rows, run=[run.id] * len(rows)) for run in runs if (rows := records(run))]
    return pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame()
