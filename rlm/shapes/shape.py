"""`Shape`: what a value looks like, as plain data and as text. How it is found is in the modules beside this one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LineShape:
    """Lines that are alike but for their variable parts."""

    count: int
    pattern: str
    """The constant parts, with `<n>` for digits and `<*>` for other variable parts."""

    example: str
    """The first such line."""


@dataclass(frozen=True)
class Column:
    """A column of a table, or a key of records."""

    name: str
    type: str
    present: int
    """How many rows or records have a value."""

    range: str = ""
    """The least and the greatest value, or the values themselves where there are few."""


@dataclass(frozen=True)
class Shape:
    """What a value looks like: what it is, how much there is of it, and what a person would see at a glance."""

    kind: str
    """`log`, `lines`, `CSV`, `TSV`, `JSON`, `JSON lines`, `Markdown`, `source code`, `mail`, `prose` or `one line`; or
    the name of a type."""

    size: str
    """How much it is, in words: `2,000 lines of a log, 279,076 characters`."""

    lines: tuple[LineShape, ...] = ()
    other_lines: int = 0
    """Lines of no common shape."""

    columns: tuple[Column, ...] = ()
    rows: int = 0
    """How many rows or records the columns were found in."""

    headings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Line ends, odd characters, and what else is unusual."""

    sampled: str = field(default="")
    """What was read, where that is not everything. Counts of shapes and columns are then of the sample."""

    def text(self, *, most: int = 12, width: int = 160, patterns: bool = False) -> str:
        """Return the description: at most `most` shapes, columns and headings, in lines of about `width` characters.

        With `patterns`, each line shape has its pattern besides an example.
        """
        parts = [self.size + (f" ({self.sampled})" if self.sampled else "")]
        if self.lines:
            about = "The commonest kinds of lines"
            parts.append(f"{about}, how many there are of each{' in the sample' * bool(self.sampled)}, and an example:")
            for shape in self.lines[:most]:
                parts.append(f"{shape.count:>7,} x  {_cut(shape.example, width)}")
                if patterns:
                    parts.append(f"{'shape:':>9}  {_cut(shape.pattern, width)}")
            rest = self.other_lines + sum(shape.count for shape in self.lines[most:])
            if rest:
                parts.append(f"{rest:>7,} other lines")
        if self.columns:
            kind = "Columns" if self.kind in ("CSV", "TSV", "DataFrame") else "Keys"
            parts.append(f"{kind} ({len(self.columns):,}):")
            for column in self.columns[:most]:
                missing = "" if column.present == self.rows else f", in {column.present:,} of {self.rows:,}"
                span = f": {column.range}" if column.range else ""
                parts.append(f"  {_cut(column.name, 60)} ({column.type}{missing}){_cut(span, width)}")
            if len(self.columns) > most:
                parts.append(f"  and {len(self.columns) - most:,} more")
        if self.headings:
            parts.append(f"Headings ({len(self.headings):,}):")
            parts += [f"  {_cut(heading, width)}" for heading in self.headings[:most]]
            if len(self.headings) > most:
                parts.append(f"  and {len(self.headings) - most:,} more")
        return "\n".join([*parts, *self.notes])

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
