"""Tables that fit: a narrow terminal gets fewer columns, never cut ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

Columns = Mapping[str, Sequence[Text]]
"""The cells of each column, by its heading."""

_GAP = 2


def fits(columns: Columns, width: int) -> bool:
    """Whether nothing would be wrapped or cut."""
    return _width(columns) <= width


def fitting(columns: Columns, width: int, less: Iterable[str]) -> dict[str, Sequence[Text]]:
    """The columns without those that there is no room for; `less` are those to do without, in this order."""
    made = dict(columns)
    for name in less:
        if fits(made, width):
            break
        made.pop(name, None)
    return made


def table_of(columns: Columns, *, left: Collection[str] = ("suite",)) -> Table:
    """A table of these columns. Numbers stand on the right, as all do that are not said to be `left`."""
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _width(columns: Columns) -> int:
    return sum(_GAP + max([len(name), *(cell.cell_len for cell in cells)]) for name, cells in columns.items())
