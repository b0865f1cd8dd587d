"""The writer that every run of this process uses, unless it is told otherwise."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ..events import Observer, ignore
from ..paths import home
from .writer import TraceWriter

OFF = ("0", "off", "no", "false")
_PATIENCE_S = 30.0
_writers: list[TraceWriter] = []


def everyday() -> Observer:
    """Records what it is told in `RLM_HOME`; with `RLM_TRACE=off` it looks away."""
    if os.environ.get("RLM_TRACE", "").strip().lower() in OFF:
        return ignore
    return _writer(home())


@functools.cache
def _writer(place: Path) -> TraceWriter:
    _writers.append(TraceWriter(place))
    return _writers[-1]


def catch_up(place: Path) -> None:
    """Wait until what this process has recorded there so far can be read."""
    for writer in _writers:
        if writer.folder == place:
            writer.flush(_PATIENCE_S)
