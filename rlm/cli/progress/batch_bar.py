"""The bar of a batch in one line of any width: what went wrong is said first, and what does not fit is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...batch.outcome import ENDINGS
from ..formatting import money

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

    from ...batch.driver import Batch

WIDEST = 30
NARROWEST = 6
BETWEEN = " · "
STYLES = {"Submitted": "green", "Extracted": "yellow", "Failed": "red", "Lost": "magenta"}
_BAD = ("Failed", "Lost")
_SHORT = {"Submitted": "subm.", "Extracted": "extr."}


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing that is said beside the bar."""

    long: str
    short: str
    style: str = ""
    must: bool = False
    """It is said however narrow the terminal is."""


@dataclass(slots=True)
class BarLine:
    """A bar with what is said beside it, in the order in which it matters."""

    done: int
    total: int
    pieces: list[Piece]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as there is room."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        said, room = self.fitted(options.max_width)
        line = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        cells: list[ProgressBar | Text] = [said]
        if room > 0:
            line.add_column(width=room)
            cells.insert(0, ProgressBar(total=max(1, self.total), completed=self.done, width=room))
        line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(*cells)
        yield line

    def fitted(self, width: int) -> tuple[Text, int]:
        """What is said in so many columns, and how many are left for the bar: 0, where that is too little for one."""
        from rich.text import Text

        room = width - NARROWEST - 1
        chosen = [(one, one.long) for one in self.pieces]
        if _length(text for _, text in chosen) > room:
            kept = {index for index, one in enumerate(self.pieces) if one.must}
            for index in range(len(self.pieces)):
                if _length(self.pieces[one].short for one in kept | {index}) <= room:
                    kept.add(index)
            chosen = [(one, one.short) for index, one in enumerate(self.pieces) if index in kept]
        said = Text(BETWEEN).join(Text(text, one.style) for one, text in chosen)
        left = min(WIDEST, width - said.cell_len - 1)
        return said, left if left >= 2 else 0


def bar_line(batch: Batch, rate: str | None, left: str | None) -> BarLine:
    """The line of a batch: what failed or was lost comes first, then cost, time and rate, and then what ended well."""
    pieces = [Piece(f"{batch.done:,} of {batch.total:,}", f"{batch.done:,}/{batch.total:,}", must=True)]
    pieces += [_ending(batch, one) for one in _BAD if batch.endings[one]]
    if batch.cost_usd is not None:
        pieces.append(Piece(money(batch.cost_usd), money(batch.cost_usd)))
    pieces += [Piece(one, one) for one in (left, rate) if one is not None]
    pieces += [_ending(batch, one) for one in ENDINGS if one not in _BAD and batch.endings[one]]
    return BarLine(batch.done, batch.total, pieces)


def _ending(batch: Batch, ending: str) -> Piece:
    number = f"{batch.endings[ending]:,}"
    word = ending.lower()
    return Piece(f"{number} {word}", f"{number} {_SHORT.get(ending, word)}", STYLES[ending], must=ending in _BAD)


def _length(texts: Iterator[str]) -> int:
    made = [len(text) for text in texts]
    return sum(made) + len(BETWEEN) * max(0, len(made) - 1)
