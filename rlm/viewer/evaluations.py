"""The evaluations in one home: a list of their logs, the table of each, and the score of a run in any of them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from .eval_table import EvaluationTable


class Evaluations:
    """The logs in `home/evals`, and one more that may be elsewhere. Any thread may use it."""

    def __init__(self, home: Path | str | None = None, log: Path | None = None) -> None:
        self._home = home
        self._log = log
        self._lock = threading.Lock()
        self._tables: dict[Path, EvaluationTable] = {}

    def table(self, name: str | None = None) -> EvaluationTable:
        """Return the table of the log with a name, or that of the given log. Raises `EvalLogError`."""
        from ..evals.log import EvalLogError

        if name is None:
            if self._log is None:
                raise EvalLogError("this server was not started with the log of an evaluation")
            return self._table(self._log)
        for folder in self._folders():
            if folder.name == name:
                return self._table(folder)
        raise EvalLogError(f"there is no evaluation {name!r}")

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each log, the newest first; of one that cannot be read, the problem."""
        rows = []
        for folder in self._folders():
            try:
                rows.append(self._table(folder).row())
            except Exception as error:  # any file may be in that folder
                rows.append({"name": folder.name, "problem": str(error)})
        return rows

    def sample(self, run_id: str) -> dict[str, Any] | None:
        """Return the sample of a run, with its evaluation, its score and the expected outputs."""
        for folder in self._folders():
            try:
                sample = self._table(folder).sample(run_id)
            except Exception:
                continue
            if sample is not None:
                return {"evaluation": folder.name, **sample}
        return None

    def scores(self) -> dict[str, float]:
        """Return the scores of runs by id. The score in a newer evaluation comes before that in an older one."""
        scores: dict[str, float] = {}
        for folder in reversed(self._folders()):
            try:
                scores.update(self._table(folder).scores())
            except Exception:
                continue
        return scores

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes with the logs."""
        return tuple((folder.name, self._table(folder).state()) for folder in self._folders())

    def _folders(self) -> list[Path]:
        from ..evals.log import known_logs

        given = [] if self._log is None else [self._log]
        known = known_logs(None if self._home is None else Path(self._home) / "evals")
        return [*given, *(folder for folder in known if not any(_same(folder, other) for other in given))]

    def _table(self, folder: Path) -> EvaluationTable:
        with self._lock:
            return self._tables.setdefault(folder, EvaluationTable(folder))


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False
