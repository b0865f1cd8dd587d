"""`describe`: the shape of any value. Only the standard library is imported: this also runs in the kernel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .lines import line_shapes
from .shape import Shape
from .tables import MAX_ROWS, json_values, records, table, type_name
from .texts import MAX_PARSED, definitions, headings, kind_of, oddities

_LONG_LINE = 4_000
_LISTED_KEYS = 40
_NOUNS = {"log": "lines of a log", "prose": "lines of prose", "mail": "lines of mail"}


def describe(value: Any) -> Shape:
    """What a value looks like: its kind, size, line shapes, columns or keys with counts. print(describe(x))"""
    if isinstance(value, str) or (hasattr(value, "splitlines") and not isinstance(value, bytes | bytearray)):
        return _text(value)
    if isinstance(value, bytes | bytearray):
        return _bytes(bytes(value))
    if hasattr(value, "dtypes") and hasattr(value, "columns"):
        return _frame(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple | set | frozenset):
        return _items(list(value), type(value).__name__)
    shown = repr(value) if isinstance(value, int | float | bool | None) else type(value).__name__
    return Shape(type(value).__name__, f"{type(value).__name__}: {shown[:200]}")


def _text(text: Any) -> Shape:
    kind, delimiter = kind_of(text)
    size, notes = f"{len(text):,} characters", oddities(text)
    number = text.count("\n") + (0 if not len(text) or text[-1:] == "\n" else 1)
    if kind == "empty text":
        return Shape(kind, f"an empty text ({size})")
    if delimiter:
        columns, looked_at, rows, header = table(text, delimiter)
        about = f"{kind}{'' if delimiter in ',' or kind == 'TSV' else f' with {delimiter!r}'}"
        size = f"{about}, {rows:,} rows {'after a header' if header else 'without a header'}, {size}"
        return Shape(kind, size, columns=columns, rows=looked_at, notes=notes, sampled=_read_rows(looked_at, rows))
    if kind == "JSON lines":
        columns, looked_at = records(json_values(text))
        rows = looked_at if looked_at < MAX_ROWS else sum(1 for _ in json_values(text))
        size = f"JSON lines, {rows:,} values, {size}"
        return Shape(kind, size, columns=columns, rows=looked_at, notes=notes, sampled=_read_rows(looked_at, rows))
    if kind == "JSON":
        return _json(text, size, notes)
    if kind == "one line":
        return Shape(kind, f"one line of {size}", notes=(f"It begins: {text[:160]!r}", *notes))
    about = f"{number:,} {_NOUNS.get(kind, 'lines' if kind == 'lines' else f'lines of {kind}')}, {size}"
    if kind in ("Markdown", "source code"):
        found = headings(text) if kind == "Markdown" else definitions(text)
        return Shape(kind, about, headings=found, notes=notes)
    if kind == "prose" or len(text) > _LONG_LINE * max(1, number):
        return Shape(kind, about, notes=(f"It begins: {text[:160]!r}", *notes))
    shapes, other, sampled = line_shapes(text)
    if kind == "mail":
        messages = text.count("\nFrom ") + (text[:5] == "From ")
        notes = (*((f"{messages:,} messages begin with 'From '.",) if messages else ()), *notes)
    return Shape(kind, about, lines=shapes, other_lines=other, notes=notes, sampled=sampled)


def _json(text: Any, size: str, notes: tuple[str, ...]) -> Shape:
    if len(text) > MAX_PARSED:
        begins = f"It begins: {text[:300]!r}"
        return Shape("JSON", f"JSON, {size}", notes=(begins, *notes), sampled="only its beginning was looked at")
    inner = describe(json.loads(str(text)))
    return Shape(
        "JSON",
        f"JSON, {size}: {inner.size}",
        columns=inner.columns,
        rows=inner.rows,
        notes=(*inner.notes, *notes),
        sampled=inner.sampled,
    )


def _mapping(value: Mapping[Any, Any]) -> Shape:
    size = f"{type(value).__name__} with {len(value):,} keys"
    inner = list(value.values())
    if len(value) > _LISTED_KEYS and all(isinstance(item, Mapping) for item in inner[:1000]):
        columns, looked_at = records(inner)
        return Shape(
            "dict", f"{size}, each a dict; keys such as {next(iter(value))!r}", columns=columns, rows=looked_at
        )
    if len(value) > _LISTED_KEYS and len({type_name(item) for item in inner[:1000]}) == 1:
        shown = ", ".join(repr(key)[:60] for key in list(value)[:5])
        return Shape("dict", f"{size} to values of type {type_name(inner[0])}; keys such as {shown}")
    columns, _ = records([value])
    lists = [(key, item) for key, item in value.items() if isinstance(item, list | tuple) and item]
    notes = tuple(f"{str(key)[:60]}: {_items(list(item), 'list').size}" for key, item in lists[:8])
    return Shape("dict", size, columns=columns, rows=1, notes=notes)


def _items(values: list[Any], name: str) -> Shape:
    size = f"{name} of {len(values):,} items"
    types = Counter(type_name(value) for value in values[:MAX_ROWS])
    sampled = _read_rows(min(len(values), MAX_ROWS), len(values))
    if not values:
        return Shape(name, f"an empty {name}")
    if len(types) > 1:
        size += ": " + ", ".join(f"{kind} x {number:,}" for kind, number in types.most_common(8))
    kind = types.most_common(1)[0][0]
    if kind == "dict":
        columns, looked_at = records(values)
        return Shape(name, f"{size}{' of type dict' if len(types) == 1 else ''}", columns=columns, rows=looked_at)
    plain = len(types) == 1
    if plain and kind in ("int", "float"):
        least, most = min(values), max(values)
        return Shape(name, f"{size} of type {kind}, from {least} to {most}")
    if plain and kind == "str":
        lengths = [len(value) for value in values]
        span = f"of {min(lengths):,} to {max(lengths):,} characters, {sum(lengths):,} in all"
        firsts = "\n".join(value.partition("\n")[0][:_LONG_LINE] for value in values)
        shapes, other, what = line_shapes(firsts)
        note = ("The first lines of the items are described.",) if any("\n" in value for value in values) else ()
        return Shape(name, f"{size} of type str, {span}", lines=shapes, other_lines=other, notes=note, sampled=what)
    return Shape(name, f"{size}{f' of type {kind}' if plain else ''}", sampled=sampled)


def _bytes(data: bytes) -> Shape:
    size = f"{len(data):,} bytes"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        guess = _encoding(data)
        about = f", probably {guess}" if guess else ""
        where = f"Byte {error.start:,} is {data[error.start : error.start + 1]!r}, which is not UTF-8."
        return Shape("bytes", f"{size}, not UTF-8{about}", notes=(where, f"They begin: {data[:80]!r}"))
    inner = _text(text)
    return Shape(**{**inner.__dict__, "kind": "bytes", "size": f"{size} of UTF-8 text: {inner.size}"})


def _encoding(data: bytes) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16"
    try:
        from charset_normalizer import from_bytes
    except ImportError:  # the kernel may have no packages
        return None
    best = from_bytes(data[:100_000]).best()
    return None if best is None or b"\x00" in data[:1000] else str(best.encoding)


def _frame(frame: Any) -> Shape:
    """Describe a DataFrame by its columns; pandas itself is not imported."""
    names = list(frame.columns)
    columns, looked_at = records(
        dict(zip(map(str, names), row, strict=True)) for row in frame.head(MAX_ROWS).itertuples(index=False, name=None)
    )
    size = f"{type(frame).__name__} of {len(frame):,} rows and {len(names):,} columns"
    return Shape("DataFrame", size, columns=columns, rows=looked_at, sampled=_read_rows(looked_at, len(frame)))


def _read_rows(looked_at: int, rows: int) -> str:
    return "" if looked_at == rows else f"described by the first {looked_at:,} of {rows:,}"
