"""Two recorded runs beside each other, in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...traces.diff import format_value
from ..formatting import clean, one_line
from .recorded_runs import ending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...traces.diff import IterationDiff, RunDiff, ValuePair

_DIFF_LINES = 40


def difference_page(difference: RunDiff) -> RenderableType:
    """What differs; what is the same is only counted."""
    first, second = difference.first, difference.second
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", style="dim", no_wrap=True)
    table.add_column(clean(first.id), overflow="fold", ratio=1)
    table.add_column(clean(second.id), overflow="fold", ratio=1)
    table.add_row("ending", ending(first), ending(second))
    differing = [one for one in difference.facts if not one.same and one.name not in ("ending",)]
    _add(table, differing)
    parts: list[RenderableType] = [table]
    parts.append(Text(f"{sum(one.same for one in difference.facts)} settings and numbers are the same.", "dim"))
    if difference.outputs:
        answers = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        answers.add_column(style="bold", no_wrap=True)
        answers.add_column(overflow="fold", ratio=1)
        answers.add_column(overflow="fold", ratio=1)
        _add(answers, difference.outputs)
        parts += [Text(""), Rule("Outputs", align="left", style="dim"), answers]
    diverged = difference.diverged_at
    said = "All iterations are the same." if diverged is None else f"They diverge at iteration {diverged}."
    parts += [Text(""), Rule("Iterations", align="left", style="dim"), Text(said)]
    parts += [_iteration(one) for one in difference.iterations if not one.same]
    return Group(*parts)


def _add(table: Table, facts: Iterable[ValuePair]) -> None:
    for one in facts:
        style = "" if one.same else "yellow"
        values = (Text(one_line(format_value(value), 300), style) for value in (one.first, one.second))
        table.add_row(clean(one.name), *values)


def _iteration(one: IterationDiff) -> RenderableType:
    parts: list[RenderableType] = [Text(f"\nIteration {one.number}", "bold")]
    if one.only_in:
        parts.append(Text(f"only in the {one.only_in} run", "yellow"))
    for name, diff in (("code", one.code), ("output", one.output)):
        if diff:
            parts += [Text(name, "dim"), _coloured(diff)]
    return Group(*parts)


def _coloured(diff: str) -> Text:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    lines = clean(diff).split("\n")
    text = Text()
    for line in lines[:_DIFF_LINES]:
        text.append(f"  {line[:300]}\n", styles.get(line[:1], "dim"))
    if len(lines) > _DIFF_LINES:
        text.append(f"  and {len(lines) - _DIFF_LINES} lines more\n", "dim")
    text.rstrip()
    return text
