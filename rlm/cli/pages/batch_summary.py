"""The summary of a batch: endings, time, tokens, cost, and the commonest errors."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...batch.item import ENDINGS
from ...batch.ledger import EndingTotals
from ...batch.summary import BatchSummary
from ..console import count, dollars, duration, one_line

_LEAST_USD = 1e-9


def batch_page(summary: BatchSummary) -> RenderableType:
    """Return the summary as a page."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("ending", "items", "share", "seconds each", "tokens", "cost"):
        table.add_column(name, justify="left" if name == "ending" else "right")
    for ending in ENDINGS:
        if ending in summary.endings:
            table.add_row(*_cells(ending, summary.endings[ending], summary.total))
    everything = _sum(summary.endings)
    if len(summary.endings) != 1:
        table.add_row(*_cells("all", everything, summary.total))
    return Group(table, *([_errors(summary.errors)] if summary.errors else []), *_notes(summary, everything))


def _notes(summary: BatchSummary, everything: EndingTotals) -> list[Text]:
    notes = []
    if summary.cost_usd is not None and summary.cost_usd - (everything.cost_usd or 0.0) > _LEAST_USD:
        notes.append(Text(f"Cost in all: {dollars(summary.cost_usd)}, every attempt counted."))
    if everything.unpriced and (everything.cost_usd is not None or summary.max_cost is not None):
        text = f"{count(everything.unpriced, 'call')} had no known price: not in the cost"
        text += "; --max-cost does not count them." if summary.max_cost is not None else "."
        notes.append(Text(text, "dim"))
    if summary.left:
        why = f": {summary.stop_reason}" if summary.stop_reason else ""
        notes.append(Text(f"{count(summary.left, 'item')} of {summary.total:,} left{why}.", "yellow"))
    if summary.unsuccessful:
        them = "it" if summary.unsuccessful == 1 else "them"
        notes.append(Text(f"{summary.unsuccessful:,} failed; `--retry-failed` runs {them} again."))
    if summary.unrelated_lines:
        gone = f"{count(summary.unrelated_lines, 'line')} of items that are no longer in the batch"
        notes.append(Text(f"The results have {gone}; their number is null.", "dim"))
    return [*notes, Text(f"Results: {summary.output}")]


def _cells(ending: str, totals: EndingTotals, total: int) -> tuple[str, ...]:
    cost = dollars(totals.cost_usd) if totals.cost_usd is not None else "-"
    each = duration(totals.seconds / totals.count) if totals.count else "-"
    return ending, f"{totals.count:,}", f"{100 * totals.count / max(1, total):.1f}%", each, f"{totals.tokens:,}", cost


def _sum(endings: dict[str, EndingTotals]) -> EndingTotals:
    every = list(endings.values())
    costs = [totals.cost_usd for totals in every if totals.cost_usd is not None]
    return EndingTotals(
        sum(totals.count for totals in every),
        sum(totals.seconds for totals in every),
        sum(totals.tokens for totals in every),
        sum(costs) if costs else None,
        sum(totals.unpriced for totals in every),
    )


def _errors(errors: list[tuple[str, int, str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("errors", justify="right")
    table.add_column("message", overflow="fold")
    table.add_column("for example")
    for error, times, item in errors:
        table.add_row(f"{times:,}", Text(one_line(error, 200)), Text(one_line(item, 30)))
    return table
