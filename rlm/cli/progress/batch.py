"""The progress of a batch: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ...batch.item import ENDINGS
from ..console import count, dollars, duration, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from ...batch.driver import Batch
    from ...batch.item import Outcome
    from ...batch.results_file import Repairs

_WINDOW = 200
"""The rate is that of so many last items."""

_EVERY_S = 10.0
_BAR_WIDTH = 16
_FIRST = ("Failed", "Lost", "Submitted", "Extracted")
_STYLES = {"Submitted": "green", "Extracted": "yellow", "Failed": "red", "Lost": "magenta"}


class BatchView:
    """The view of a batch. This one shows nothing."""

    def start(self, batch: Batch) -> None:
        """Begin to show a batch."""

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Show that an item has ended."""

    def say(self, text: str) -> None:
        """Show a message."""

    def stop(self, batch: Batch) -> None:
        """End the view, however the batch ended."""


def choose_view(quiet: bool) -> BatchView:
    """Return the view that suits standard error."""
    if quiet:
        return BatchView()
    if not sys.stderr.isatty():
        return LinesView(sys.stderr)
    from rich.console import Console

    console = Console(stderr=True)
    return LinesView(sys.stderr) if console.is_dumb_terminal else BarView(console)


class Rate:
    """The rate at which items end, over the last ones."""

    def __init__(self) -> None:
        # The start counts, too: items that run together end together.
        self._times: deque[float] = deque([time.monotonic()], maxlen=_WINDOW)

    def add(self) -> None:
        """Count an item that has ended now."""
        self._times.append(time.monotonic())

    def per_second(self) -> float | None:
        """Return items per second; None as long as it is unknown."""
        if len(self._times) < 2 or self._times[-1] <= self._times[0]:
            return None
        return (len(self._times) - 1) / (time.monotonic() - self._times[0])

    def texts(self, batch: Batch) -> list[str]:
        """Return the rate and the time left, as far as they are known."""
        rate = self.per_second()
        if not rate:
            return []
        text = f"{rate:.1f}/s" if rate >= 0.1 else f"{rate * 60:.1f}/min"
        unfinished = batch.stop_reason is None and batch.done < batch.total
        return [text, f"{duration((batch.total - batch.done) / rate)} left"] if unfinished else [text]


class LinesView(BatchView):
    """Writes a line at the start, at the end, and every few seconds."""

    def __init__(self, stream: TextIO, every: float = _EVERY_S) -> None:
        self._stream, self._every, self._rate = stream, every, Rate()
        self._written = time.monotonic()
        self._over = threading.Event()

    def start(self, batch: Batch) -> None:
        """Write how many items there are."""
        self._rate = Rate()
        self.say(start_line(batch))
        threading.Thread(target=self._repeat, args=(batch,), daemon=True, name="rlm-progress").start()

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Count an item, and write the state if the last line is old."""
        self._rate.add()
        self._write_state_if_due(batch)

    def say(self, text: str) -> None:
        """Write a line."""
        self._written = time.monotonic()
        self._stream.write(text + "\n")
        self._stream.flush()

    def stop(self, batch: Batch) -> None:
        """Write the last state."""
        self._over.set()
        self._write_state(batch)

    def _repeat(self, batch: Batch) -> None:
        """Write the state also while no item ends: items may take long, or wait for a rate limit."""
        while not self._over.wait(self._every):
            with contextlib.suppress(OSError, ValueError):  # the stream was closed
                self._write_state_if_due(batch)

    def _write_state_if_due(self, batch: Batch) -> None:
        if time.monotonic() - self._written >= self._every:
            self._write_state(batch)

    def _write_state(self, batch: Batch) -> None:
        running = [f"{len(batch.running):,} under way"] if batch.running else []
        facts = [*running, *_cost(batch), *self._rate.texts(batch)]
        endings = [text for _, text in _endings(batch)]
        self.say(", ".join([f"{batch.done:,} of {batch.total:,} done", *facts, *endings]))


class BarView(BatchView):
    """Draws a bar of rich with the endings, the cost, the rate and the time left, in as many lines as they need."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        facts = TextColumn("{task.fields[facts]}", table_column=Column())  # wrapped where the terminal is narrow
        columns = (BarColumn(bar_width=_BAR_WIDTH), facts)
        self._bar = Progress(*columns, console=console, refresh_per_second=4)
        self._console, self._rate = console, Rate()

    def start(self, batch: Batch) -> None:
        """Begin to draw."""
        self._rate = Rate()
        self.say(start_line(batch))
        self._task = self._bar.add_task("", total=batch.total, completed=batch.done, facts=self._facts(batch))
        self._bar.start()

    def update(self, batch: Batch, outcome: Outcome) -> None:
        """Draw the new state; print the error of an item above the bar."""
        self._rate.add()
        if outcome.error is not None:
            self.say(f"{one_line(outcome.name, 40)}: {one_line(outcome.error, 160)}")
        self._bar.update(self._task, completed=batch.done, facts=self._facts(batch))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def stop(self, batch: Batch) -> None:
        """Leave the last state of the bar."""
        self._bar.stop()

    def _facts(self, batch: Batch) -> str:
        endings = [f"[{_STYLES[name]}]{text}[/]" for name, text in _endings(batch, _FIRST)]
        done = f"{batch.done:,} of {batch.total:,}"
        return " · ".join([done, *endings, *_cost(batch), *reversed(self._rate.texts(batch))])


def start_line(batch: Batch) -> str:
    """Return how many items a batch has, and how many are done."""
    done = f"; {batch.done:,} of them are done already" if batch.done else ""
    return count(batch.total, "item") + done


def repair_lines(repairs: Repairs, path: Path) -> list[str]:
    """Return what was changed in the results file before the batch goes on."""
    changes = [
        (repairs.torn, "removed the last line, which was not complete"),
        (repairs.replaced, f"removed {count(repairs.replaced, 'line')} of items that run again"),
        (repairs.duplicate, f"removed {count(repairs.duplicate, 'duplicate line')}"),
        (repairs.moved, f"renamed {count(repairs.moved, 'line')}, as the items have moved"),
        (repairs.restored, f"restored {count(repairs.restored, 'line')} from the ledger"),
    ]
    return [f"{path}: {text}" for number, text in changes if number]


def _cost(batch: Batch) -> list[str]:
    return [] if batch.cost_usd is None else [dollars(batch.cost_usd)]


def _endings(batch: Batch, names: Iterable[str] = ENDINGS) -> list[tuple[str, str]]:
    return [(name, f"{batch.endings[name]:,} {name.lower()}") for name in names if batch.endings[name]]
