"""The record of every run: `TraceWriter` writes it as the run goes on, `load()` reads it.

for run in rlm.traces.load():
    print(run.id, run.ending, run.confidence)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .notebook_view import plots
    from .resume import recorded_run
    from .run import RunRecord, UnknownRun
    from .runs import Runs, find, load
    from .writer import TraceWriter

__all__ = ["RunRecord", "Runs", "TraceWriter", "UnknownRun", "find", "load", "plots", "recorded_run"]

# What writes a trace does not import what reads it.
_HOME = {
    **dict.fromkeys(("RunRecord", "UnknownRun"), "run"),
    **dict.fromkeys(("Runs", "find", "load"), "runs"),
    "TraceWriter": "writer",
    "recorded_run": "resume",
}


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module(".notebook_view.plots", __name__)
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
