"""The printed form of a benchmark run: medians and minima, ratios to ours, notes and targets."""

from __future__ import annotations

from peers import BY_KEY, CONTENDERS
from results import COLUMNS, Results, verdicts
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

OURS = "pool"


def print_results(results: Results, heading: str) -> None:
    console = Console(width=156, highlight=False)
    console.print(f"[bold]{escape(heading)}[/bold]")
    console.print(_medians(results))
    if results.samples.get(OURS):
        console.print(_ratios(results))
    _print_notes(console, results)
    _print_targets(console, results)


def _number(value: float) -> str:
    """Three significant digits or fewer."""
    if value < 0.01:
        return "<0.01"
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _shown(results: Results) -> list[str]:
    return [entry.key for entry in CONTENDERS if entry.key in results.samples or entry.key in results.failures]


def _medians(results: Results) -> Table:
    table = Table(title="median (minimum)", title_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for column in COLUMNS:
        table.add_column(f"{column.title}\n{column.unit}", justify="right", no_wrap=True)
    for key in _shown(results):
        cells = []
        for column in COLUMNS:
            values = results.of(key, column.key)
            median = results.median(key, column.key)
            if median is not None:
                text = _number(median * column.scale)
                text += f" ({_number(min(values) * column.scale)})" if len(values) > 1 else ""
            else:
                text = "failed" if column.key in results.failures.get(key, {}) else "-"
            cells.append(text)
        table.add_row(BY_KEY[key].label, *cells)
    return table


def _ratios(results: Results) -> Table:
    table = Table(
        title="times ours from the pool (above 1: ours is quicker or smaller)", title_justify="left", box=box.SIMPLE
    )
    table.add_column("", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column.title, justify="right")
    for key in _shown(results):
        cells = []
        for column in COLUMNS:
            theirs, ours = results.median(key, column.key), results.median(OURS, column.key)
            cells.append("-" if theirs is None or not ours else f"{_number(theirs / ours)}x")
        table.add_row(BY_KEY[key].label, *cells)
    return table


def _print_notes(console: Console, results: Results) -> None:
    for key in _shown(results):
        entry = BY_KEY[key]
        version = results.versions.get(key, "")
        console.print(escape(f"{entry.label} {version}".strip() + (f": {entry.note}" if entry.note else "")))
        for column, reason in results.failures.get(key, {}).items():
            console.print(f"  [red]{escape(column)}[/red]: {escape(reason)}", soft_wrap=True)
    console.print()


def _print_targets(console: Console, results: Results) -> None:
    words = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: "[yellow]----[/yellow]"}
    for verdict in verdicts(results):
        console.print(f"{words[verdict.passed]}  {escape(verdict.target)}: {escape(verdict.found)}", soft_wrap=True)
