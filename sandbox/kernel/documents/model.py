"""What a document is made of: pages and tables that know where they stand."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

MAX_PAGES = 20_000
MAX_UNPACKED_BYTES = 512 << 20
"""Of an archive that is a document, so much may be in it, by its own account."""

MAX_ROWS, MAX_COLUMNS, MAX_CELLS = 200_000, 2_000, 2_000_000
"""The largest table that is read; what is beyond is left out, and the table says so."""


class NoDocument(ValueError):
    """A file cannot be read as a document; the message says why."""


class Page(str):
    """The text of a page, slide, sheet or message: a `str` that knows its number and its tables."""

    number: int
    """From 1."""

    name: str
    """The name of a sheet, the title of a slide, the subject of a message; else empty."""

    _tables: Callable[[], list[Table]] | list[Table]

    def __new__(cls, text: str, number: int, tables: Any = (), name: str = "") -> Page:
        """`tables` are the page's tables, or a function that finds them when they are asked for."""
        page = super().__new__(cls, text)
        page.number, page.name, page._tables = number, name, tables
        return page

    @property
    def tables(self) -> list[Table]:
        """The tables on this page, each a list of rows."""
        if callable(self._tables):
            self._tables = self._tables()
        return list(self._tables)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class Table(list):  # type: ignore[type-arg]
    """A table: a list of rows, each a list of values. It knows its page, and where its first cell stands."""

    def __init__(self, rows: Any, page: int = 1, title: str = "", row: int = 1, column: int = 1) -> None:
        super().__init__(rows)
        self.page, self.title = page, title
        self._row, self._column = row, column
        self.truncated = False
        """Whether the document has more of it."""

    def cell(self, row: int, column: int) -> str:
        """Return the name of a cell, both counted from 0: `Sheet1!B7`, or `page 3, row 7, column 2`."""
        if self.title:
            return f"{self.title}!{column_name(self._column + column)}{self._row + row}"
        return f"page {self.page}, row {row + 1}, column {column + 1}"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class Pages(Sequence[Page]):
    """The pages of a document, each read when it is first looked at."""

    def __init__(self, count: int, read: Callable[[int], Page]) -> None:
        self._count, self._read = min(count, MAX_PAGES), read
        self._known: dict[int, Page] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Page: ...
    @overload
    def __getitem__(self, index: slice) -> list[Page]: ...
    def __getitem__(self, index: int | slice) -> Page | list[Page]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        number = index + self._count if index < 0 else index
        if not 0 <= number < self._count:
            raise IndexError(f"the document has {self._count:,} pages; pages[0] is the first")
        if number not in self._known:
            self._known[number] = self._read(number)
        return self._known[number]

    def __repr__(self) -> str:
        return f"<{self._count:,} pages>"


class Document:
    """A document: its pages, and with them its text and its tables."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = pages

    @property
    def text(self) -> str:
        """The text of all pages, with a form feed between two."""
        return "\n\f".join(self.pages)

    @property
    def tables(self) -> Tables:
        """The tables of all pages, in order, each page read when its turn comes."""
        return Tables(self.pages)


class Tables(Sequence[Table]):
    """The tables of pages. Pages are read as far as it takes: `len(tables)` reads all of them."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = pages
        self._known: list[Table] = []
        self._next = 0

    def __iter__(self) -> Iterator[Table]:
        index = 0
        while self._reach(index):
            yield self._known[index]
            index += 1

    def __len__(self) -> int:
        while self._reach(len(self._known)):
            pass
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> Table: ...
    @overload
    def __getitem__(self, index: slice) -> list[Table]: ...
    def __getitem__(self, index: int | slice) -> Table | list[Table]:
        if isinstance(index, slice) or index < 0:
            return list(self)[index]
        if not self._reach(index):
            raise IndexError(f"there are {len(self._known)} tables")
        return self._known[index]

    def __repr__(self) -> str:
        return f"<tables of {self._next:,} of {len(self._pages):,} pages: {len(self._known):,}>"

    def _reach(self, index: int) -> bool:
        while len(self._known) <= index and self._next < len(self._pages):
            self._known += self._pages[self._next].tables
            self._next += 1
        return index < len(self._known)


def column_name(number: int) -> str:
    """Return the letters of a column, from 1: A, B, ..., AA."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def refuse_bomb(path: str) -> None:
    """Raise `NoDocument` for an archive that says that it holds too much."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise NoDocument(f"the file is no archive, as such a document is: {error}") from None
    if size > MAX_UNPACKED_BYTES:
        raise NoDocument(f"the document unpacks to {size:,} bytes; at most {MAX_UNPACKED_BYTES:,} are read")
