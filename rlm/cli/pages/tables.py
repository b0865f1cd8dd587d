"""Parts of every page: headings, tables of names and values, and tables that drop columns in a narrow terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

Columns = Mapping[str, Sequence[Text]]
"""The cells of each column, by its heading."""

_GAP = 2


def heading(title: str | Text, style: str = "") -> Rule:
    """Return a line with a title."""
    return Rule(Text(title, style) if isinstance(title, str) else title, align="left", style="dim")


def section(title: str | Text, *parts: RenderableType, style: str = "") -> list[RenderableType]:
    """Return an empty line, a heading, and the parts below it."""
    return [Text(""), heading(title, style), *parts]


def facts_table(rows: Iterable[tuple[str, RenderableType | None]] = (), *, name_style: str = "dim") -> Table:
    """Return names and values in two columns; a value of None is left out."""
    grid = Table.grid(padding=(0, _GAP))
    grid.add_column(style=name_style, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, value)
    return grid


def fits(columns: Columns, width: int) -> bool:
    """Return whether no cell would be wrapped or cut."""
    return _width(columns) <= width


def fitting(columns: Columns, width: int, optional: Iterable[str]) -> dict[str, Sequence[Text]]:
    """Return the columns that fit. The `optional` ones are dropped first to last until the rest fits."""
    shown = dict(columns)
    for name in optional:
        if fits(shown, width):
            break
        shown.pop(name, None)
    return shown


def table_of(columns: Columns, *, left: Collection[str] = ("suite",)) -> Table:
    """Return a table of these columns, aligned to the right except for those in `left`."""
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _width(columns: Columns) -> int:
    return sum(_GAP + max([len(name), *(cell.cell_len for cell in cells)]) for name, cells in columns.items())
