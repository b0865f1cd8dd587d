"""The summary of a batch: endings, time, tokens, cost, and the commonest errors."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...batch.driver import BAD, Batch
from ...batch.ledger import Ledger, Totals
from ...batch.outcome import ENDINGS
from ...batch.results_file import Results
from ..formatting import count, duration, money, one_line

_ERRORS = 10
_LEAST_USD = 1e-9


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of a batch when it ended or was stopped, earlier sessions included."""

    total: int
    left: int
    why: str | None
    """Why items are left."""

    endings: dict[str, Totals]
    errors: list[tuple[str, int, str]]
    """The commonest errors: the message, how often, and the name of one item."""

    output: Path
    max_cost: float | None = None
    spent: float | None = None
    """The cost of all attempts, repeated ones included."""

    gone: int = 0
    """Lines of the results whose items are no longer in the batch."""

    @classmethod
    def of(cls, batch: Batch, ledger: Ledger, results: Results) -> Summary:
        """Return the summary of a batch that has ended, or was stopped."""
        endings = ledger.totals()
        left = batch.total - sum(totals.count for totals in endings.values())
        return cls(
            *(batch.total, left, batch.why, endings, ledger.errors(_ERRORS), results.path),
            max_cost=batch.rules.max_cost,
            spent=ledger.spent(),
            gone=results.mended.gone,
        )

    @property
    def bad(self) -> int:
        """Return how many items failed or were lost."""
        return sum(self.endings[ending].count for ending in BAD if ending in self.endings)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return {
            "total": self.total,
            "left": self.left,
            "why": self.why,
            "endings": {ending: dataclasses.asdict(totals) for ending, totals in self.endings.items()},
            "errors": [{"error": error, "count": times, "item": item} for error, times, item in self.errors],
            "cost_in_all_usd": self.spent,
            "output": str(self.output),
            "lines_not_in_batch": self.gone,
        }


def batch_page(summary: Summary) -> RenderableType:
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


def _notes(summary: Summary, everything: Totals) -> list[Text]:
    notes = []
    if summary.spent is not None and summary.spent - (everything.cost_usd or 0.0) > _LEAST_USD:
        notes.append(Text(f"Cost in all: {money(summary.spent)}, every attempt counted."))
    if everything.unpriced:
        text = f"{count(everything.unpriced, 'call')} had no known price: not in the cost"
        text += "; --max-cost does not count them." if summary.max_cost is not None else "."
        notes.append(Text(text, "dim"))
    if summary.left:
        why = f": {summary.why}" if summary.why else ""
        notes.append(Text(f"{count(summary.left, 'item')} of {summary.total:,} left{why}.", "yellow"))
    if summary.bad:
        them = "it" if summary.bad == 1 else "them"
        notes.append(Text(f"{summary.bad:,} failed; `--retry-failed` runs {them} again."))
    if summary.gone:
        gone = f"{count(summary.gone, 'line')} of items that are no longer in the batch"
        notes.append(Text(f"The results have {gone}; their number is null.", "dim"))
    return [*notes, Text(f"Results: {summary.output}")]


def _cells(ending: str, totals: Totals, total: int) -> tuple[str, ...]:
    cost = money(totals.cost_usd) if totals.cost_usd is not None else "-"
    each = duration(totals.seconds / totals.count) if totals.count else "-"
    return ending, f"{totals.count:,}", f"{100 * totals.count / max(1, total):.1f}%", each, f"{totals.tokens:,}", cost


def _sum(endings: dict[str, Totals]) -> Totals:
    every = list(endings.values())
    costs = [totals.cost_usd for totals in every if totals.cost_usd is not None]
    return Totals(
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
