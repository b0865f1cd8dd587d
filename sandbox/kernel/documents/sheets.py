"""Excel workbooks, by openpyxl: a page and a table for each sheet, with the values that were last computed."""

from __future__ import annotations

import datetime
from typing import Any

import openpyxl

from .model import MAX_CELLS, MAX_COLUMNS, MAX_ROWS, Document, Page, Pages, Table, refuse_bomb


def read(path: str) -> Document:
    """Return the document; a sheet is read when it is looked at."""
    refuse_bomb(path)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    names = [sheet.title for sheet in book.worksheets]

    def page(number: int) -> Page:
        table = _table(book[names[number]], number + 1)
        text = "\n".join("\t".join(_shown(value) for value in row) for row in table)
        return Page(text, number + 1, [table] if table else [], names[number])

    return Document(Pages(len(names), page))


def _table(sheet: Any, page: int) -> Table:
    sheet.reset_dimensions()  # what the file says of its size may be anything
    rows: list[list[Any]] = []
    cells, truncated = 0, False
    for row in sheet.iter_rows(max_row=MAX_ROWS + 1, values_only=True):  # with `max_col`, every row would be as wide
        values = list(row[:MAX_COLUMNS])
        while values and values[-1] is None:
            values.pop()
        cells += len(values) + 1
        if len(rows) == MAX_ROWS or cells > MAX_CELLS:
            truncated = True
            break
        rows.append([_plain(value) for value in values])
    while rows and not rows[-1]:
        rows.pop()
    table = Table(rows, page, sheet.title)
    table.truncated = truncated
    return table


def _plain(value: Any) -> Any:
    kept = (str, int, float, bool, datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
    return value if value is None or isinstance(value, kept) else str(value)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
