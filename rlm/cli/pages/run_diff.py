"""The difference of two recorded runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...traces.diff import format_value
from ..console import clean, one_line
from .runs_table import ending_text
from .tables import section

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...traces.diff import IterationDiff, RunDiff, ValuePair

_DIFF_LINES = 40


def difference_page(difference: RunDiff) -> RenderableType:
    """Return what differs between two runs; what is the same is only counted."""
    first, second = difference.first, difference.second
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", style="dim", no_wrap=True)
    table.add_column(clean(first.id), overflow="fold", ratio=1)
    table.add_column(clean(second.id), overflow="fold", ratio=1)
    table.add_row("ending", ending_text(first), ending_text(second))
    _add(table, [fact for fact in difference.facts if not fact.same and fact.name != "ending"])
    same = sum(fact.same for fact in difference.facts)
    parts: list[RenderableType] = [table, Text(f"{same} settings and numbers are the same.", "dim")]
    if difference.outputs:
        outputs = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        outputs.add_column(style="bold", no_wrap=True)
        outputs.add_column(overflow="fold", ratio=1)
        outputs.add_column(overflow="fold", ratio=1)
        _add(outputs, difference.outputs)
        parts += section("Outputs", outputs)
    diverged = difference.diverged_at
    text = "All iterations are the same." if diverged is None else f"They diverge at iteration {diverged}."
    parts += section("Iterations", Text(text))
    parts += [_iteration(iteration) for iteration in difference.iterations if not iteration.same]
    return Group(*parts)


def _add(table: Table, facts: Iterable[ValuePair]) -> None:
    for fact in facts:
        style = "" if fact.same else "yellow"
        values = (Text(one_line(format_value(value), 300), style) for value in (fact.first, fact.second))
        table.add_row(clean(fact.name), *values)


def _iteration(difference: IterationDiff) -> RenderableType:
    parts: list[RenderableType] = [Text(f"\nIteration {difference.number}", "bold")]
    if difference.only_in:
        parts.append(Text(f"only in the {difference.only_in} run", "yellow"))
    for name, diff in (("code", difference.code), ("output", difference.output)):
        if diff:
            parts += [Text(name, "dim"), _colored(diff)]
    return Group(*parts)


def _colored(diff: str) -> Text:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    lines = clean(diff).split("\n")
    text = Text()
    for line in lines[:_DIFF_LINES]:
        text.append(f"  {line[:300]}\n", styles.get(line[:1], "dim"))
    if len(lines) > _DIFF_LINES:
        text.append(f"  and {len(lines) - _DIFF_LINES} more lines\n", "dim")
    text.rstrip()
    return text
