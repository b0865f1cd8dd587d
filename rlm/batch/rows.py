"""Rows of a CSV or JSONL file or of a Python sequence, read one at a time, each with its number and its location."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..signatures import Signature
from ..tasks import TaskError, TaskProblem

JSONL = (".jsonl", ".ndjson")
_MAX_CELL = 1 << 30
_CONVERSIONS: tuple[Callable[[str], Any], ...] = (
    str,
    json.loads,
    lambda text: json.loads(text.strip().lower()),  # TRUE and NULL, as spreadsheets write them
    lambda text: None if not text.strip() else json.loads(""),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    number: int
    """The number of the row, from 1, without the header."""

    where: str
    """File and line, for messages."""

    values: dict[str, Any]
    problem: str | None = None
    """Why the row cannot be read; None if it can."""


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file. Raises `TaskError` if the file cannot be read any further."""
    if path.suffix.lower() == ".csv":
        return _read_csv(path)
    if path.suffix.lower() in JSONL:
        return read_objects(path)
    raise TaskError([TaskProblem(str(path), "rows must be in a .csv or a .jsonl file")])


def read_objects(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSONL file. Empty lines are skipped."""
    number = 0
    for line_number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        number += 1
        value: Any = {}
        problem = None
        try:
            value = json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            problem = f"is not JSON: {error.msg}, at character {error.colno}"
        except (ValueError, RecursionError) as error:
            problem = f"is not JSON ({error})"
        if not isinstance(value, dict):
            value, problem = {}, "is no JSON object; each line must be an object, {...}"
        yield Row(number, f"{path}:{line_number}", value, problem)


def number_rows(rows: Iterable[Any]) -> Iterator[Row]:
    """Yield the rows of a Python sequence of mappings."""
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            yield Row(number, f"row {number}", dict(row))
        else:
            yield Row(number, f"row {number}", {}, f"is {type(row).__name__}; each row must be a mapping of inputs")


class CsvCells:
    """Converts the cells of one file to the types of one signature."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def convert(self, name: str, text: str) -> Any:
        """Return the value of a cell: its text if the field takes text, else its JSON value.

        Text that does not fit is returned unchanged, so that the check of the inputs reports it.
        """
        for conversion in _CONVERSIONS:
            try:
                value = conversion(text)
                if self._signature.takes(name, value):
                    return value
            except (ValueError, RecursionError):
                continue
        return text


def _read_csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(_lines(path), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise TaskError([TaskProblem(str(path), "is empty; its first line must name the columns")])
        names = [name.strip() for name in header]
        _check_header(path, names)
        number = 0
        for cells in reader:
            if not cells:
                continue
            number += 1
            where = f"{path}:{reader.line_num} (row {number})"
            if len(cells) != len(names):
                message = f"has {len(cells)} cells, and the header {len(names)}; quote cells that contain commas"
                yield Row(number, where, {}, message)
                continue
            yield Row(number, where, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise TaskError([TaskProblem(f"{path}:{reader.line_num}", f"is not CSV ({error})")]) from None


def _check_header(path: Path, names: list[str]) -> None:
    problem = None
    if len(names) == 1 and (separator := next((char for char in ";\t|" if char in names[0]), None)) is not None:
        problem = f"cells must be separated by commas, and this header has {separator!r} instead; save it with commas"
    for index, name in enumerate(names):
        if not name:
            problem = problem or f"column {index + 1} has no name"
        elif name in names[:index]:
            problem = problem or f"there are two columns {name!r}"
    if problem is not None:
        raise TaskError([TaskProblem(f"{path}:1", problem)])


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except OSError as error:
        raise TaskError([TaskProblem(str(path), f"cannot be read ({error.strerror or error})")]) from None
    except UnicodeDecodeError:
        raise TaskError([TaskProblem(str(path), "is not UTF-8; save it as UTF-8")]) from None
