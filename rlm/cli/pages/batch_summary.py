"""What a batch came to, for people and as JSON: endings, time, tokens, cost, and errors by what they say."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...batch.driver import BAD, Batch
from ...batch.ledger import Ledger, Totals
from ...batch.outcome import ENDINGS
from ...batch.results_file import Results
from ..formatting import count, duration, money, one_line

_ERRORS = 10
_LEAST_USD = 1e-9


@dataclass(frozen=True, slots=True)
class Summary:
    """What a batch came to, earlier sessions included."""

    total: int
    left: int
    why: str | None
    """Why something is left."""

    endings: dict[str, Totals]
    errors: list[tuple[str, int, str]]
    """The commonest: what was said, how often, and of which item."""

    output: Path
    max_cost: float | None = None
    spent: float | None = None
    """What all attempts have cost, also those that were done again."""

    gone: int = 0
    """Lines of the results that are of items that are not in the batch now."""

    @classmethod
    def of(cls, batch: Batch, ledger: Ledger, results: Results) -> Summary:
        """The summary of a batch that has ended, or was stopped."""
        endings = ledger.totals()
        left = batch.total - sum(one.count for one in endings.values())
        return cls(
            *(batch.total, left, batch.why, endings, ledger.errors(_ERRORS), results.path),
            max_cost=batch.rules.max_cost,
            spent=ledger.spent(),
            gone=results.mended.gone,
        )

    @property
    def bad(self) -> int:
        """How many items have failed or were lost."""
        return sum(self.endings[ending].count for ending in BAD if ending in self.endings)

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain JSON values."""
        return {
            "total": self.total,
            "left": self.left,
            "why": self.why,
            "endings": {ending: dataclasses.asdict(one) for ending, one in self.endings.items()},
            "errors": [{"error": said, "count": times, "item": item} for said, times, item in self.errors],
            "cost_in_all_usd": self.spent,
            "output": str(self.output),
            "lines_not_in_batch": self.gone,
        }


def show(summary: Summary, output: IO[str], *, as_json: bool) -> None:
    """Print the summary."""
    if as_json:
        from ..console import safe_json

        output.write(safe_json(json.dumps(summary.to_dict(), ensure_ascii=False)) + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=output, highlight=False)
    if not console.is_terminal:
        console.width = 120
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("ending", "items", "share", "seconds each", "tokens", "cost"):
        table.add_column(name, justify="left" if name == "ending" else "right", header_style="dim")
    everything = _together(summary.endings)
    for ending in ENDINGS:
        if ending in summary.endings:
            table.add_row(*_cells(ending, summary.endings[ending], summary.total))
    if len(summary.endings) != 1:
        table.add_row(*_cells("all", everything, summary.total))
    with console.capture() as captured:
        console.print(table)
        if summary.errors:
            console.print(_errors(summary.errors))
        if summary.spent is not None and summary.spent - (everything.cost_usd or 0.0) > _LEAST_USD:
            console.print(Text(f"Cost in all: {money(summary.spent)}, every attempt counted."))
        if everything.unpriced:
            said = f"{count(everything.unpriced, 'call')} had no known price: not in the cost"
            console.print(
                Text(f"{said}; --max-cost does not count them." if summary.max_cost is not None else f"{said}.", "dim")
            )
        if summary.left:
            why = f": {summary.why}" if summary.why else ""
            console.print(Text(f"{count(summary.left, 'item')} of {summary.total:,} left{why}.", "yellow"))
        if summary.bad:
            console.print(
                Text(f"{summary.bad:,} failed; `--retry-failed` does {'it' if summary.bad == 1 else 'them'} again.")
            )
        if summary.gone:
            gone = f"{count(summary.gone, 'line')} of items that are not in the batch any more"
            console.print(Text(f"The results have {gone}; their number is null.", "dim"))
        console.print(Text(f"Results: {summary.output}"))
    output.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def _cells(ending: str, one: Totals, total: int) -> tuple[str, ...]:
    cost = money(one.cost_usd) if one.cost_usd is not None else "-"
    each = duration(one.seconds / one.count) if one.count else "-"
    return ending, f"{one.count:,}", f"{100 * one.count / max(1, total):.1f}%", each, f"{one.tokens:,}", cost


def _together(endings: dict[str, Totals]) -> Totals:
    costs = [one.cost_usd for one in endings.values() if one.cost_usd is not None]
    return Totals(
        sum(one.count for one in endings.values()),
        sum(one.seconds for one in endings.values()),
        sum(one.tokens for one in endings.values()),
        sum(costs) if costs else None,
        sum(one.unpriced for one in endings.values()),
    )


def _errors(errors: list[tuple[str, int, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column("errors", justify="right", header_style="dim")
    table.add_column("what was said", overflow="fold", header_style="dim")
    table.add_column("for example", header_style="dim")
    for said, times, item in errors:
        table.add_row(f"{times:,}", Text(one_line(said, 200)), Text(one_line(item, 30)))
    return table
