"""An evaluation while it goes on: a bar with the score so far, cost and time left; or a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..formatting import count, duration, money

if TYPE_CHECKING:
    from ...evals.log import Entry

_LINES = 20
"""At most so many, where there is no terminal."""


class Progress:
    """What is known so far."""

    def __init__(self, done: Sequence[Entry], total: int, others: Sequence[Entry] = ()) -> None:
        """`others` are in the log and do not count any more; what they cost does."""
        self.total, self.tries, self.scores = total, len(done), sum(one.score for one in done)
        costs = [cost for one in (*done, *others) if (cost := one.usage.get("cost_usd")) is not None]
        self.cost, self.priced = sum(costs), bool(costs)
        self.errors = sum(one.error is not None for one in done)
        self._before, self._began = self.tries, time.monotonic()

    def add(self, entry: Entry) -> None:
        """Take in one more."""
        self.tries += 1
        self.scores += entry.score
        self.errors += entry.error is not None
        if entry.usage.get("cost_usd") is not None:
            self.cost, self.priced = self.cost + entry.usage["cost_usd"], True

    def say(self, text: str) -> None:
        """Tell something that should not be missed."""
        click.echo(text, err=True)

    @property
    def left(self) -> float | None:
        """Seconds until it is finished, if it goes on like this."""
        fresh = self.tries - self._before
        return None if not fresh else (time.monotonic() - self._began) / fresh * (self.total - self.tries)

    def __str__(self) -> str:
        parts = [f"score {self.scores / self.tries:.3f}"] if self.tries else ["score ?"]
        parts += [money(self.cost)] if self.priced else []
        parts += [count(self.errors, "error")] if self.errors else []
        parts += [f"{duration(self.left)} left"] if self.left and self.tries < self.total else []
        return " · ".join(parts)


class _Lines(Progress):
    """Says how far it is, up to twenty times."""

    def add(self, entry: Entry) -> None:
        """Take in one more, and say so now and then."""
        super().add(entry)
        every = -(-self.total // _LINES)
        if self.tries % every == 0 or self.tries == self.total:
            click.echo(f"{self.tries:,} of {self.total:,} · {self}", err=True)


class _Bar(Progress):
    """Moves a bar."""

    def __init__(self, done: Sequence[Entry], total: int, others: Sequence[Entry], bar: Any, name: str) -> None:
        super().__init__(done, total, others)
        self._bar = bar
        self._task = bar.add_task(name, total=total, completed=self.tries, said=str(self))

    def add(self, entry: Entry) -> None:
        """Take in one more, and draw it."""
        super().add(entry)
        self._bar.update(self._task, completed=self.tries, said=str(self))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)


@contextlib.contextmanager
def progress_of(
    header: Mapping[str, Any], done: Sequence[Entry], total: int, others: Sequence[Entry], quiet: bool
) -> Iterator[Progress]:
    """The progress of an evaluation, shown on standard error as well as that can be."""
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
        TextColumn("{task.fields[said]}", style="dim"),
    )
    names = ", ".join(one["name"] for one in header["suites"])
    with Bars(*columns, console=Console(stderr=True), transient=True, expand=True) as bars:
        yield _Bar(done, total, others, bars, names if len(names) <= 30 else f"{len(header['suites'])} suites")
