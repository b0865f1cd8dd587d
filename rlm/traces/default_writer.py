"""The trace writer shared by all runs of a process."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ..events import Observer, ignore
from ..paths import home
from .paths import traces_folder
from .writer import TraceWriter

OFF = ("0", "off", "no", "false")
"""Values of an environment variable that turn a feature off."""

_FLUSH_TIMEOUT_S = 30.0
_writers: list[TraceWriter] = []


def default_observer() -> Observer:
    """Return the writer of `RLM_HOME`; with `RLM_TRACE=off`, an observer that records nothing."""
    if os.environ.get("RLM_TRACE", "").strip().lower() in OFF:
        return ignore
    return _writer(home())


def flush_writers(home: Path | str | None = None) -> None:
    """Wait until every event that this process has recorded in `home` can be read."""
    folder = traces_folder(home)
    for writer in _writers:
        if writer.folder == folder:
            writer.flush(_FLUSH_TIMEOUT_S)


@functools.cache
def _writer(home: Path) -> TraceWriter:
    _writers.append(TraceWriter(home))
    return _writers[-1]
