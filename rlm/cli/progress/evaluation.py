"""The progress of an evaluation: a bar on a terminal, up to twenty lines elsewhere; score, cost and time left."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..console import count, dollars, duration

if TYPE_CHECKING:
    from ...evals.log import LogEntry

_LINES = 20
"""How many lines are written where there is no terminal."""


class Progress:
    """The state of an evaluation. This class shows nothing but messages."""

    def __init__(self, done: Sequence[LogEntry], total: int, others: Sequence[LogEntry] = ()) -> None:
        """`others` are entries of the log that were replaced: only their cost counts."""
        self.total, self.runs, self.scores = total, len(done), sum(entry.score for entry in done)
        costs = [cost for entry in (*done, *others) if (cost := entry.usage.get("cost_usd")) is not None]
        self.cost, self.priced = sum(costs), bool(costs)
        self.errors = sum(entry.error is not None for entry in done)
        self._runs_before, self._started = self.runs, time.monotonic()

    def add(self, entry: LogEntry) -> None:
        """Add a finished run."""
        self.runs += 1
        self.scores += entry.score
        self.errors += entry.error is not None
        if entry.usage.get("cost_usd") is not None:
            self.cost, self.priced = self.cost + entry.usage["cost_usd"], True

    def say(self, text: str) -> None:
        """Print a message."""
        click.echo(text, err=True)

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the end at the present rate; None before the first run has finished."""
        runs = self.runs - self._runs_before
        return None if not runs else (time.monotonic() - self._started) / runs * (self.total - self.runs)

    def __str__(self) -> str:
        parts = [f"score {self.scores / self.runs:.3f}"] if self.runs else ["score ?"]
        parts += [dollars(self.cost)] if self.priced else []
        parts += [count(self.errors, "error")] if self.errors else []
        parts += [f"{duration(self.seconds_left)} left"] if self.seconds_left and self.runs < self.total else []
        return " · ".join(parts)


class _Lines(Progress):
    """Progress as lines of text."""

    def add(self, entry: LogEntry) -> None:
        """Add a finished run, and write the state if it is due."""
        super().add(entry)
        every = -(-self.total // _LINES)
        if self.runs % every == 0 or self.runs == self.total:
            self.say(f"{self.runs:,} of {self.total:,} · {self}")


class _Bar(Progress):
    """Progress as a bar."""

    def __init__(self, done: Sequence[LogEntry], total: int, others: Sequence[LogEntry], bar: Any, name: str) -> None:
        super().__init__(done, total, others)
        self._bar = bar
        self._task = bar.add_task(name, total=total, completed=self.runs, facts=str(self))

    def add(self, entry: LogEntry) -> None:
        """Add a finished run, and draw it."""
        super().add(entry)
        self._bar.update(self._task, completed=self.runs, facts=str(self))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)


@contextlib.contextmanager
def progress_of(
    header: Mapping[str, Any], done: Sequence[LogEntry], total: int, others: Sequence[LogEntry], quiet: bool
) -> Iterator[Progress]:
    """Yield the progress of an evaluation, shown in the way that suits standard error."""
    if quiet:
        yield Progress(done, total, others)
        return
    if not sys.stderr.isatty():
        yield _Lines(done, total, others)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}", style="dim"),
    )
    names = ", ".join(suite["name"] for suite in header["suites"])
    with Bars(*columns, console=Console(stderr=True), transient=True, expand=True) as bars:
        yield _Bar(done, total, others, bars, names if len(names) <= 30 else f"{len(header['suites'])} suites")
