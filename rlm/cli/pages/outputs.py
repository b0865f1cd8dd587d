"""The outputs of a run with the evidence for each, as the ending of a run and the page of a recorded run show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ...results import Evidence
from ..formatting import clean, count, one_line, value_text
from .tables import facts_table

_QUOTES = 3


def outputs_table(
    outputs: Mapping[str, Any],
    evidence: Sequence[Evidence] | None = None,
    field_confidence: Mapping[str, float] | None = None,
) -> Table:
    """Return each output with its value and, where it was extracted, its confidence and its evidence."""
    table = facts_table(name_style="bold")
    for name, value in outputs.items():
        table.add_row(clean(str(name)), Text(value_text(value)))
        if evidence is not None:
            found = [item for item in evidence if item.field == name]
            confidence = (field_confidence or {}).get(str(name))
            shown = "" if confidence is None else Text(f"{confidence:.2f}", "yellow")
            table.add_row(shown, _evidence_text(value, found))
    return table


def _evidence_text(value: Any, evidence: Sequence[Evidence]) -> Text:
    if not evidence and value is None:
        return Text("nothing was found for it", "dim")
    if not evidence:
        return Text("no evidence in the variables or the history", "yellow")
    lines = []
    for item in evidence[:_QUOTES]:
        place = f"variable {item.variable}" if item.kind == "variable" else f"output of iteration {item.iteration}"
        lines.append(f"{clean(place)}: {one_line(item.quote, 70)}")
    if len(evidence) > _QUOTES:
        lines.append(f"and {count(len(evidence) - _QUOTES, 'more place')}")
    return Text("\n".join(lines), "dim")
