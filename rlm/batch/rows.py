"""Rows of a CSV or JSONL file, one after the other, each with its number and its place in the file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tasks import TaskError, TaskProblem

JSONL = (".jsonl", ".ndjson")
_CELL = 1 << 30


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    number: int
    """From 1, without the heading."""

    where: str
    """File and line, for messages."""

    values: dict[str, Any]
    problem: str | None = None
    """What is wrong with it, where it could not be read."""


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, lazily. Raises `TaskError` where there is no reading on."""
    if path.suffix.lower() == ".csv":
        return _csv(path)
    if path.suffix.lower() in JSONL:
        return read_objects(path)
    raise TaskError([TaskProblem(str(path), "rows are in a .csv or a .jsonl file")])


def read_objects(path: Path) -> Iterator[Row]:
    """The objects of a JSONL file. Empty lines are passed over."""
    number = 0
    for line_number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        number += 1
        where = f"{path}:{line_number}"
        made: Any = {}
        problem = None
        try:
            made = json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            problem = f"is not JSON: {error.msg}, at character {error.colno}"
        except (ValueError, RecursionError) as error:
            problem = f"is not JSON ({error})"
        if not isinstance(made, dict):
            made, problem = {}, "is no JSON object; each line is one, as in {...}"
        yield Row(number, where, made, problem)


def _csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(_CELL)
    reader = csv.reader(_lines(path), strict=True)
    try:
        heading = next(reader, None)
        if heading is None:
            raise TaskError([TaskProblem(str(path), "is empty; its first line names the columns")])
        names = [name.strip() for name in heading]
        _check_heading(path, names)
        number = 0
        for cells in reader:
            if not cells:
                continue
            number += 1
            where = f"{path}:{reader.line_num} (row {number})"
            if len(cells) != len(names):
                message = f"has {len(cells)} cells, and the heading {len(names)}; cells with commas go into quotes"
                yield Row(number, where, {}, message)
                continue
            yield Row(number, where, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise TaskError([TaskProblem(f"{path}:{reader.line_num}", f"is not CSV ({error})")]) from None


def _check_heading(path: Path, names: list[str]) -> None:
    if len(names) == 1 and (other := next((one for one in ";\t|" if one in names[0]), None)) is not None:
        message = f"cells are separated by commas, and this heading has none but {other!r}; save it with commas"
        raise TaskError([TaskProblem(f"{path}:1", message)])
    for index, name in enumerate(names):
        if not name:
            raise TaskError([TaskProblem(f"{path}:1", f"column {index + 1} has no name")])
        if name in names[:index]:
            raise TaskError([TaskProblem(f"{path}:1", f"there are two columns {name!r}")])


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except OSError as error:
        raise TaskError([TaskProblem(str(path), f"cannot be read ({error.strerror or error})")]) from None
    except UnicodeDecodeError:
        raise TaskError([TaskProblem(str(path), "is not UTF-8; save it as UTF-8")]) from None
