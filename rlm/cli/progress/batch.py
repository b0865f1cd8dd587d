"""How a batch is shown while it goes on: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from ..formatting import count, duration, money, one_line
from .batch_bar import BarLine, bar_line

if TYPE_CHECKING:
    from rich.console import Console

    from ...batch.driver import Batch
    from ...batch.outcome import Outcome
    from ...batch.results_file import Mended

_LATELY = 200
_EVERY_S = 10.0


class BatchView(Protocol):
    """Shows a batch to somebody."""

    def note(self, mended: Mended, path: Path) -> None:
        """Called before it starts, with what was done to the results file."""

    def start(self, batch: Batch) -> None:
        """Called when it starts."""

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Called for each item that has ended."""

    def say(self, text: str) -> None:
        """Called when there is something to be told."""

    def stop(self, batch: Batch) -> None:
        """Called after it, however it ended."""


def choose_view(quiet: bool) -> BatchView:
    """The view for where standard error goes."""
    if quiet:
        return SilentView()
    if not sys.stderr.isatty():
        return LinesView(sys.stderr)
    from rich.console import Console

    console = Console(stderr=True)
    return LinesView(sys.stderr) if console.is_dumb_terminal else BarView(console)


class Speed:
    """How fast items have ended lately."""

    def __init__(self) -> None:
        # Times at which one ended; first of all, when it all began: those that ran together end together.
        self._ends: deque[float] = deque(maxlen=_LATELY)

    def begin(self) -> None:
        """Note that items are run from now on."""
        self._ends.append(time.monotonic())

    def take(self) -> None:
        """Note that one has ended now."""
        self._ends.append(time.monotonic())

    def rate(self) -> float | None:
        """Items a second, once that can be said."""
        if len(self._ends) < 2 or self._ends[-1] <= self._ends[0]:
            return None
        return (len(self._ends) - 1) / (time.monotonic() - self._ends[0])

    def facts(self, batch: Batch) -> tuple[str | None, str | None]:
        """Rate and time left, as far as they are known."""
        rate = self.rate()
        said = None if rate is None else f"{rate:.1f}/s" if rate >= 0.1 else f"{rate * 60:.1f}/min"
        left = rate and batch.why is None and batch.done < batch.total
        return said, f"{duration((batch.total - batch.done) / rate)} left" if rate and left else None


class LinesView:
    """Writes a line at the start, at the end, and every few seconds."""

    def __init__(self, stream: TextIO, every: float = _EVERY_S) -> None:
        self._stream, self._speed, self._said, self._every = stream, Speed(), time.monotonic(), every
        self._over = threading.Event()

    def note(self, mended: Mended, path: Path) -> None:
        """Say what was done to the results file."""
        for text in mended_lines(mended, path):
            self.say(text)

    def start(self, batch: Batch) -> None:
        """Say how much there is to do."""
        self._speed.begin()
        self.say(begin_line(batch))
        threading.Thread(target=self._beat, args=(batch,), daemon=True, name="rlm-progress").start()

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Say how far it is, if that was not said lately."""
        self._speed.take()
        if time.monotonic() - self._said >= self._every:
            self._say_state(batch)

    def say(self, text: str) -> None:
        """Write a line."""
        self._said = time.monotonic()
        self._stream.write(text + "\n")
        self._stream.flush()

    def stop(self, batch: Batch) -> None:
        """Say how far it came."""
        self._over.set()
        self._say_state(batch)

    def _beat(self, batch: Batch) -> None:
        """Say it also while nothing ends: items may take long, or wait for their turn to ask a model."""
        while not self._over.wait(self._every):
            if time.monotonic() - self._said >= self._every:
                with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                    self._say_state(batch)

    def _say_state(self, batch: Batch) -> None:
        endings = [f"{number:,} {ending.lower()}" for ending, number in batch.endings.items() if number]
        rate, left = self._speed.facts(batch)
        cost = money(batch.cost_usd) if batch.cost_usd is not None else None
        running = f"{len(batch.running):,} under way" if batch.running else None
        facts = [one for one in (running, rate, cost, left) if one is not None]
        self.say(", ".join([f"{batch.done:,} of {batch.total:,} done", *facts, *endings]))


class BarView:
    """Draws a bar, with rate, cost, endings and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._speed, self._console = Speed(), console
        self._line = BarLine(0, 0, [])
        self._bar = Live(console=console, refresh_per_second=4, get_renderable=lambda: self._line)

    def note(self, mended: Mended, path: Path) -> None:
        """Say what was done to the results file."""
        for text in mended_lines(mended, path):
            self.say(text)

    def start(self, batch: Batch) -> None:
        """Begin to draw."""
        self._speed.begin()
        self.say(begin_line(batch))
        self._line = self.line(batch)
        self._bar.start()

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Draw how far it is; what failed is said above the bar."""
        self._speed.take()
        if outcome.error is not None:
            self.say(f"{one_line(outcome.name, 40)}: {one_line(outcome.error, 160)}")
        self._line = self.line(batch)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def stop(self, batch: Batch) -> None:
        """Take the bar away."""
        self._bar.stop()

    def line(self, batch: Batch) -> BarLine:
        """How far it is, drawn to the width it finds."""
        return bar_line(batch, *self._speed.facts(batch))


class SilentView:
    """Shows nothing."""

    def note(self, mended: Mended, path: Path) -> None:
        """Say nothing."""

    def start(self, batch: Batch) -> None:
        """Say nothing."""

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Say nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def stop(self, batch: Batch) -> None:
        """Say nothing."""


def begin_line(batch: Batch) -> str:
    """How much there is to do."""
    done = f"; {batch.done:,} of them are done already" if batch.done else ""
    return count(batch.total, "item") + done


def mended_lines(mended: Mended, path: Path) -> list[str]:
    """What was done to the results file, where anybody would want to know."""
    made = []
    if mended.torn:
        made.append(f"{path}: the last line was not finished and was taken away")
    if mended.replaced:
        made.append(f"{path}: {count(mended.replaced, 'line')} of items that are done anew taken out")
    if mended.double:
        made.append(f"{path}: {count(mended.double, 'line')} of items that had one already taken out")
    if mended.moved:
        made.append(f"{path}: {count(mended.moved, 'line')} renamed, as the items have moved")
    if mended.restored:
        made.append(f"{path}: {count(mended.restored, 'line')} missing, put in from the ledger")
    return made
