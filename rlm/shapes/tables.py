"""The columns of a table and the keys of records: types, ranges, and how often there is a value."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .lines import blocks
from .shape import Column
from .texts import is_header

MAX_ROWS = 200_000
"""So many rows are looked at; of the others it is only known how many there are."""

_MAX_NAMES = 300
_FEW = 6
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?")


class _Values:
    """The values of one column or key, counted."""

    def __init__(self) -> None:
        self.present = 0
        self.types: Counter[str] = Counter()
        self.least: dict[str, Any] = {}
        self.most: dict[str, Any] = {}
        self.few: Counter[Any] | None = Counter()
        self.longest = 0

    def add(self, kind: str, value: Any, shown: str | None) -> None:
        """Count a value. `shown` is how it is listed; None for values that are not."""
        self.present += 1
        self.types[kind] += 1
        if kind in ("int", "float", "date"):
            kind = "number" if kind != "date" else kind
            if kind not in self.least or value < self.least[kind]:
                self.least[kind] = value
            if kind not in self.most or value > self.most[kind]:
                self.most[kind] = value
        elif kind in ("str", "list", "dict"):
            self.longest = max(self.longest, len(value))
        if self.few is not None:
            if shown is None or len(shown) > 40:
                self.few = None
                return
            self.few[shown] += 1
            if len(self.few) > _FEW:
                self.few = None

    def column(self, name: str) -> Column:
        """Return what was counted."""
        kinds = [kind for kind, _ in self.types.most_common()]
        if kinds == ["int", "float"]:
            kinds = ["float"]
        return Column(name, " or ".join(kinds) or "empty", self.present, self._range(kinds))

    def _range(self, kinds: list[str]) -> str:
        if self.few and self.present > len(self.few):
            return ", ".join(f"{shown} x {number:,}" for shown, number in self.few.most_common())
        spans = [f"{self.least[kind]} to {self.most[kind]}" for kind in ("number", "date") if kind in self.least]
        if "str" in kinds:
            spans.append(f"texts of up to {self.longest:,} characters")
        elif "list" in kinds:
            spans.append(f"up to {self.longest:,} items")
        return ", ".join(spans)


def table(text: Any, delimiter: str) -> tuple[tuple[Column, ...], int, int, bool]:
    """Return the columns of a table, the rows that were looked at, all rows, and whether it has a header."""
    rows = _rows(text, delimiter)
    first = next(rows, [])
    header = is_header(first)
    names = [name.strip() for name in first] if header else [f"column {number}" for number in range(1, len(first) + 1)]
    columns = [_Values() for _ in names]
    looked_at = total = 0
    if not header and first:
        looked_at = total = 1
        _add_row(columns, first)
    for row in rows:
        if not row:
            continue
        total += 1
        if looked_at < MAX_ROWS:
            looked_at += 1
            _add_row(columns, row)
        elif '"' not in text:  # then rows are lines
            total = sum(1 for block in blocks(text) for line in block.split(b"\n") if line.strip(b"\r")) - header
            break
    return tuple(values.column(name) for name, values in zip(names, columns, strict=True)), looked_at, total, header


def records(values: Iterable[Any]) -> tuple[tuple[Column, ...], int]:
    """Return the keys of dicts, nested ones with a dot, and how many were looked at."""
    keys: dict[str, _Values] = {}
    number = 0
    for value in values:
        if number == MAX_ROWS:
            break
        number += 1
        if isinstance(value, Mapping):
            _add_record(keys, value, "", 0)
    return tuple(found.column(name) for name, found in keys.items()), number


def json_values(text: Any) -> Iterator[Any]:
    """Yield the values of JSON lines; lines that are not JSON are `None`."""
    rest = b""
    for block in blocks(text):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from map(_loaded, filter(bytes.strip, lines))
    if rest.strip():
        yield _loaded(rest)


def type_name(value: Any) -> str:
    """Return the name of the type of a value; a text that is a date is a `date`."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        return "date"
    return "None" if value is None else type(value).__name__


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _rows(text: Any, delimiter: str) -> Iterator[list[str]]:
    def lines() -> Iterator[str]:
        for block in blocks(text):
            yield from block.decode("utf-8", "surrogatepass").splitlines(keepends=True)

    reader = csv.reader(lines(), delimiter=delimiter)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue


def _add_row(columns: list[_Values], row: list[str]) -> None:
    for values, cell in zip(columns, row, strict=False):
        cell = cell.strip()
        if not cell:
            continue
        if _NUMBER.fullmatch(cell) and len(cell) < 30:
            whole = cell.lstrip("-+").isdigit()
            values.add("int" if whole else "float", int(cell) if whole else float(cell), cell)
        elif _DATE.fullmatch(cell):
            values.add("date", cell, None)
        else:
            values.add("str", cell, json.dumps(cell, ensure_ascii=False))


def _add_record(keys: dict[str, _Values], record: Mapping[Any, Any], prefix: str, depth: int) -> None:
    for key, value in record.items():
        name = f"{prefix}{key}"[:100]
        if name not in keys:
            if len(keys) >= _MAX_NAMES:
                continue
            keys[name] = _Values()
        kind = type_name(value)
        plain = isinstance(value, str | bool | int | float) or value is None
        keys[name].add(kind, value, json.dumps(value, ensure_ascii=False) if plain and kind != "date" else None)
        if isinstance(value, Mapping) and depth < 3:
            _add_record(keys, value, f"{name}.", depth + 1)
