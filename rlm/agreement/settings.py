"""How many independent runs a task has, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

MAX_RUNS = 15
TEMPERATURES = (None, 0.7, 1.0)
"""Temperatures of the first, second and later runs. None is that of the model as it is configured."""

SCRIPT_TEMPERATURES = (None, 0.3, 0.5)
"""Those of a model that completes scripts: it is small, and loses its way at higher ones."""


@dataclass(frozen=True, slots=True)
class AgreementSettings:
    """The `agree` of a task."""

    runs: int = 3
    """At most this many runs; fewer where the first ones decide."""

    reconcile: bool = False
    """Whether a further run sees the programs whose answers differ, and decides."""

    def __post_init__(self) -> None:
        if isinstance(self.runs, bool) or not isinstance(self.runs, int) or not 2 <= self.runs <= MAX_RUNS:
            raise ValueError(f"agree is a number of runs from 2 to {MAX_RUNS}, not {self.runs!r}")

    @classmethod
    def of(cls, agree: Any, *, reconcile: bool = False) -> AgreementSettings | None:
        """Return the settings of `agree=3`; None for `agree=None` or `agree=1`, which is a single run."""
        if isinstance(agree, cls):
            return agree
        if agree is None or (agree == 1 and not isinstance(agree, bool)):
            if reconcile:
                raise ValueError("reconcile needs agree: a number of runs, such as agree=3")
            return None
        return cls(agree, reconcile=reconcile)

    @property
    def first_round(self) -> int:
        """How many runs must at least answer before anything can be decided: more than half."""
        return self.runs // 2 + 1

    def temperature(self, run: int, *, script: bool = False) -> float | None:
        """Return the temperature of a run, from 0. `script`: of a model that completes scripts."""
        temperatures = SCRIPT_TEMPERATURES if script else TEMPERATURES
        return temperatures[min(run, len(temperatures) - 1)]

    def guidance(self, run: int, *, script: bool = False) -> str | None:
        """Return how a run is told to go about the task; nothing for the first."""
        texts = ways(script)
        return texts[(run - 1) % len(texts)] if run else None


@cache
def ways(script: bool = False) -> tuple[str, ...]:
    """Return the ways to go about a task, one for each run but the first."""
    name = "ways_script.md" if script else "ways.md"
    text = files(__package__).joinpath("prompts", name).read_text(encoding="utf-8")
    return tuple(part.strip() for part in text.split("\n---\n"))
