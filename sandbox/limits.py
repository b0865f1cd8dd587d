"""Limits: what one session may use. Plain numbers; where each one is enforced is said beside it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What a session may use before it is stopped. Every limit is per session unless it says otherwise."""

    cell_seconds: float = 60.0
    """One cell. Time spent waiting for the host does not count."""

    session_seconds: float = 3600.0
    """The whole session, from its first cell, waiting included."""

    memory_bytes: int = 1024 * MB
    """What the session may allocate beyond what an idle kernel has."""

    output_bytes: int = 1 * MB
    """What one cell may print. The rest is dropped and counted; the cell goes on."""

    file_bytes: int = 64 * MB
    """What the files in the scratch directory may hold together."""

    file_count: int = 2000
    """How many files and directories the scratch directory may hold."""

    processes: int = 32
    """Processes and threads at once."""

    host_calls: int = 10_000
    """Calls to the host over the whole session. The next one is refused where it is made."""

    call_bytes: int = 4 * MB
    """The arguments or the result of one host call, as JSON."""

    parallel_calls: int = 32
    """Host calls worked on at the same time; more wait their turn."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or value <= 0:
                kind = "a positive whole number" if whole else "a positive number"
                raise ValueError(f"Limits({field.name}={value!r}): must be {kind}")
