"""What a search for better instructions has found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..console import clean, count
from .tables import section

if TYPE_CHECKING:
    from ...optimize import Optimization
    from ...optimize.search import Scores


def optimization_page(found: Optimization, file: Path | None, task_file: Path) -> RenderableType:
    """Return scores before and after, the instructions, and what to do next. `file` is None if nothing was written."""
    table = Table("", "rows", "before", "after", "difference", "95% interval", box=None, pad_edge=False)
    table.add_row(*_row("validation", found.validation))
    table.add_row(*_row("test", found.test))
    parts: list[RenderableType] = [table, Text("")]
    if found.learned.instructions:
        parts += section("Instructions", Text(clean(found.learned.instructions)))
    if found.learned.demos:
        parts.append(Text(f"With {count(len(found.learned.demos), 'example')}."))
    spent = f"{count(found.runs, 'run')}, {found.repeated:,} of them from the record; {found.cost_usd:.4f} USD for runs"
    parts += [Text(f"{found.optimizer}: {spent}.", "dim"), Text("")]
    return Group(*parts, *map(Text, _outcome(found, file, task_file)))


def _row(name: str, scores: Scores) -> list[str]:
    numbers = [f"{scores.before:.3f}", f"{scores.after:.3f}", f"{scores.difference:+.3f}"]
    return [name, f"{scores.rows:,}", *numbers, f"{scores.low:+.3f} to {scores.high:+.3f}"]


def _outcome(found: Optimization, file: Path | None, task_file: Path) -> list[str]:
    lines = []
    if found.stopped:
        lines.append("--max-cost ended the search; with more, the same command goes on.")
    if not found.kept:
        return [*lines, "Nothing better was found: the task stays as it is."]
    if found.leaks:
        shown = ", ".join(repr(clean(leak)) for leak in found.leaks[:5])
        lines.append(f"The instructions quote answers of training rows: {shown}.")
    if file is None:
        return [*lines, "They are not written. Other rows or another --seed may help; --allow-leaks writes them."]
    if found.test.low <= 0:
        lines.append("On the rows kept back no difference is shown: the interval reaches 0.")
    name = os.path.relpath(file.absolute(), task_file.absolute().parent)
    return [*lines, f"Written to {file}. To use it, add to {task_file}:", f"  learned: {name}"]
