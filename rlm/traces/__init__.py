"""Traces: every run on record. `TraceWriter` writes what happens as it happens; `load()` reads it, then or later.

for run in rlm.traces.load():
    print(run.id, run.ending, run.confidence)
"""

from __future__ import annotations

from .resume import past
from .runs import RunRecord, Runs, UnknownRun, find, load
from .writer import TraceWriter

__all__ = ["RunRecord", "Runs", "TraceWriter", "UnknownRun", "find", "load", "past"]
