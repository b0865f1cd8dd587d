"""The record of every run: `TraceWriter` writes it as the run goes on, `load()` reads it.

for run in rlm.traces.load():
    print(run.id, run.ending, run.confidence)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .resume import recorded_run
from .runs import RunRecord, Runs, UnknownRun, find, load
from .writer import TraceWriter

if TYPE_CHECKING:
    from .notebook_view import plots

__all__ = ["RunRecord", "Runs", "TraceWriter", "UnknownRun", "find", "load", "plots", "recorded_run"]


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module(".notebook_view.plots", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
