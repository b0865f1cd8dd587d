"""A list of recorded runs, and how the ending, the batch and the start of a run are shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ..console import clean, dollars, duration, one_line

if TYPE_CHECKING:
    from ...traces import RunRecord

STYLES = {
    "submitted": "bold green",
    "extracted": "bold yellow",
    "failed": "bold red",
    "running": "bold blue",
    "unfinished": "bold magenta",
    "resumed": "magenta",
}
_WIDE = 100
"""From this width on, the table has columns for the task, tokens and cost."""


class RunsTable:
    """A list of runs. A narrow terminal gets fewer columns."""

    def __init__(self, runs: Sequence[RunRecord]) -> None:
        self._runs = runs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        table.add_column("run", no_wrap=True)
        table.add_column("started", no_wrap=True, style="dim")
        if wide:
            table.add_column("task", no_wrap=True, ratio=2, overflow="ellipsis")
        table.add_column("ending", no_wrap=True)
        table.add_column("answer or reason", no_wrap=True, ratio=4, overflow="ellipsis")
        for name in ("iter", "tokens", "cost") if wide else ("iter",):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        for run in self._runs:
            table.add_row(*_row(run, wide))
        yield table


def ending_text(run: RunRecord) -> Text:
    """Return the ending of a run in its color, with its confidence: a submitted answer has one by a calibrator."""
    text = Text(run.ending, STYLES.get(run.ending, ""))
    if run.shown_confidence is not None:
        text.append(f" {run.confidence:.2f}", "yellow")
    return text


def batch_of(run: RunRecord) -> tuple[str | None, str | None]:
    """Return the results file of the batch that a run belongs to, and the name of its item there."""
    task = run.beginning.get("task") or {}
    return run.resolve(task.get("batch")), run.resolve(task.get("item"))


def _row(run: RunRecord, wide: bool) -> list[RenderableType]:
    cells: list[RenderableType] = [Text(clean(run.id)), time.strftime("%m-%d %H:%M", time.localtime(run.started))]
    if wide:
        cells.append(Text(one_line(_task_name(run), 80)))
    cells += [ending_text(run), Text(one_line(run.answer or run.reason or "", 160)), str(run.iterations_used)]
    if wide:
        cells += [f"{run.tokens:,}", "" if run.cost_usd is None else dollars(run.cost_usd)]
    return [*cells, duration(run.duration)]


def _task_name(run: RunRecord) -> str:
    """Return the name of the task file, with its folder where the name alone (`task.yaml`) is a common one."""
    parts = PurePath(run.task).parts if run.task else (run.name,)
    return "/".join(parts[-2:] if parts[-1] == "task.yaml" else parts[-1:])
