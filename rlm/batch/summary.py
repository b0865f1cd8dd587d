"""`BatchSummary`: endings, time, tokens, cost and the most frequent errors of a batch, earlier sessions included."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .driver import Batch
from .item import UNSUCCESSFUL
from .ledger import EndingTotals, Ledger
from .results_file import ResultsFile

_MAX_ERRORS = 10


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """The state of a batch that has ended or was stopped."""

    total: int
    left: int
    """The number of items that have not ended."""

    stop_reason: str | None
    """Why items are left; None if nothing stopped the batch."""

    endings: dict[str, EndingTotals]
    errors: list[tuple[str, int, str]]
    """The most frequent errors: the message, its count, and the name of one item."""

    output: Path
    """The results file."""

    max_cost: float | None = None
    cost_usd: float | None = None
    """The cost of all attempts, those of items that were run again included; None if it is unknown."""

    unrelated_lines: int = 0
    """Lines of the results file whose items are not in the batch now."""

    @classmethod
    def of(cls, batch: Batch, ledger: Ledger, results: ResultsFile) -> BatchSummary:
        """Return the summary of a batch."""
        endings = ledger.totals()
        return cls(
            total=batch.total,
            left=batch.total - sum(subtotal.count for subtotal in endings.values()),
            stop_reason=batch.stop_reason,
            endings=endings,
            errors=ledger.errors(_MAX_ERRORS),
            output=results.path,
            max_cost=batch.rules.max_cost,
            cost_usd=ledger.spent(),
            unrelated_lines=results.repairs.unrelated,
        )

    @property
    def unsuccessful(self) -> int:
        """The number of items that failed or were lost."""
        return sum(self.endings[ending].count for ending in UNSUCCESSFUL if ending in self.endings)

    def results(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the results file, in the order in which the items ended."""
        with self.output.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return {
            "total": self.total,
            "left": self.left,
            "why": self.stop_reason,
            "endings": {ending: dataclasses.asdict(subtotal) for ending, subtotal in self.endings.items()},
            "errors": [{"error": message, "count": count, "item": item} for message, count, item in self.errors],
            "cost_in_all_usd": self.cost_usd,
            "output": str(self.output),
            "lines_not_in_batch": self.unrelated_lines,
        }
