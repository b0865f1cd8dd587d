"""The comparison of two evaluation logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ..console import clean, count, one_line
from .evaluation import length_text
from .tables import facts_table, fitting, section, table_of

if TYPE_CHECKING:
    from ...evals.compare import Comparison, SamplePair, SampleScore, ScoreDifference

_CHANGED = 10
_SETTING = 60
_FEW = 10


def comparison_page(found: Comparison, resamples: int) -> RenderableType:
    """Return how much better the second log is, and on which samples."""
    rows = (*found.groups, *([found.all] if len(found.groups) != 1 else []))
    table = _Differences(rows)
    names = facts_table([("A", Text(clean(found.first))), ("B", Text(clean(found.second)))])
    parts: list[RenderableType] = [names, *_settings(found), Text(""), table, Text("")]
    if any(row.samples < _FEW for row in rows):
        parts.append(Text(f"* fewer than {_FEW} samples: the interval is too narrow.", "yellow"))
    parts.append(Text(verdict(found.all), "bold"))
    for title, pairs, style in (("Better in B", found.better, "green"), ("Worse in B", found.worse, "red")):
        if pairs:
            parts += section(f"{title}: {len(pairs):,}", _Pairs(pairs), style=style)
    only = {"A": found.only_first, "B": found.only_second}
    left_out = [f"{number:,} only in {name}" for name, number in only.items() if number]
    if left_out:
        total = count(found.only_first + found.only_second, "sample")
        parts += [Text(""), Text(f"Left out: {total}, {' and '.join(left_out)}.", "yellow")]
    parts += [Text(""), Text(f"Paired bootstrap over samples, {resamples:,} resamples.", "dim")]
    return Group(*parts)


def verdict(difference: ScoreDifference) -> str:
    """Return the comparison in one sentence."""
    if difference.low <= 0 <= difference.high:
        return "No difference is shown: the interval reaches 0."
    better, worse = ("B", "A") if difference.difference > 0 else ("A", "B")
    text = f"{better} is better than {worse} by {abs(difference.difference):.3f}: the interval does not reach 0."
    return text if difference.samples >= _FEW else f"{text} With so few samples it is too narrow; run more."


class _Differences:
    """The groups of a comparison as a table. A narrow terminal gets fewer columns."""

    def __init__(self, rows: Sequence[ScoreDifference]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self._rows
        columns = {
            "suite": [Text(clean(row.suite)) if row.suite is not None else Text("all", "bold") for row in rows],
            "length": [Text(_length(row)) for row in rows],
            "samples": [Text(f"{row.samples:,}{'*' if row.samples < _FEW else ' '}") for row in rows],
            "A": [Text(f"{row.first:.3f}") for row in rows],
            "B": [Text(f"{row.second:.3f}") for row in rows],
            "B - A": [Text(f"{row.difference:+.3f}", f"bold {_style(row)}") for row in rows],
            "95% interval": [Text(f"{row.low:+.3f} to {row.high:+.3f}") for row in rows],
            "B better": [Text(_better(row)) for row in rows],
        }
        yield table_of(fitting(columns, options.max_width, ("B better", "A", "B", "95% interval")))


def _length(row: ScoreDifference) -> str:
    return length_text(row.length) if row.suite is not None or row.length is not None else ""


def _style(row: ScoreDifference) -> str:
    return "green" if row.low > 0 else "red" if row.high < 0 else ""


def _better(row: ScoreDifference) -> str:
    """Return the share of resamples in which B is better, or `-` where no resample shows a difference."""
    return f"{row.better:.1%}" if row.better or row.worse else "-"


def _settings(found: Comparison) -> list[RenderableType]:
    if not found.settings:
        return []
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("differs", "A", "B"):
        table.add_column(name, overflow="fold")
    for name, first, second in found.settings:
        table.add_row(clean(name), one_line(_setting(first), _SETTING), one_line(_setting(second), _SETTING))
    return [Text(""), table]


def _setting(value: Any) -> str:
    return "none" if value is None or value == "" or value == {} else str(value)


class _Pairs:
    """Samples whose scores differ. A narrow terminal gets fewer columns."""

    def __init__(self, pairs: Sequence[SamplePair]) -> None:
        self._pairs = pairs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._pairs[:_CHANGED]
        columns = {
            "sample": [Text(clean(pair.sample_id)) for pair in shown],
            "A → B": [Text(f"{pair.first.score:.3f} → {pair.second.score:.3f}") for pair in shown],
            "run in A": [_run(pair.first) for pair in shown],
            "run in B": [_run(pair.second) for pair in shown],
        }
        yield table_of(fitting(columns, options.max_width, ("run in A", "run in B")), left=columns)
        if len(self._pairs) > _CHANGED:
            yield Text(f"and {len(self._pairs) - _CHANGED:,} more (--json has all)", "dim")


def _run(side: SampleScore) -> Text:
    return Text(clean(side.runs[0]) if side.runs else "", "dim")
