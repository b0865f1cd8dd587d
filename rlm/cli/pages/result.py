"""How a run ended, for people: which of the three endings, the outputs, why they can be trusted, what it took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...results import Evidence, ExecutionResult, Extracted, Failed, Submitted
from ..formatting import clean, count, one_line, usage_text, value_text
from .plans import plan_part

_QUOTES = 3


def show(console: Console, result: ExecutionResult[Any], *, iterations: int, notice: str | None) -> None:
    """Print the ending."""
    parts: list[RenderableType]
    match result:
        case Submitted():
            iterations = result.iterations
            title = Text("Submitted", "bold green")
            parts = [_fields(result.outputs)]
        case Extracted():
            title = Text.assemble(("Extracted", "bold yellow"), f", confidence {result.confidence:.2f}")
            parts = [
                _about("reason", str(result.reason)),
                Text(""),
                _fields(result.outputs, result.evidence, result.field_confidence),
            ]
            if result.extraction_notes:
                parts += [Text(""), _about("notes", result.extraction_notes)]
        case Failed():
            title = Text("Failed", "bold red")
            parts = [_about("reason", result.reason), *_partial(result)]
            iterations = max(iterations, len(result.history))
    if result.plan is not None:
        parts += [Text(""), plan_part(result.plan)]
    console.print(Rule(title, align="left", style="dim"))
    usage = Text(usage_text(result.usage, iterations or None), "dim")
    run = Text(f"run {clean(result.run_id)}", "dim") if result.run_id else Text("")
    console.print(Group(*parts, Text(""), usage, run, *([Text(notice, "yellow")] if notice else [])))


def _fields(
    outputs: Any, evidence: tuple[Evidence, ...] | None = None, likely: Mapping[str, float] | None = None
) -> RenderableType:
    """Each output with its value; where it was extracted, with what it rests on."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    values = to_jsonable_python(outputs, fallback=str)
    for name, value in values.items() if isinstance(values, dict) else [("", values)]:
        table.add_row(clean(str(name)), Text(value_text(value)))
        if evidence is not None:
            found = [one for one in evidence if one.field == name]
            sure = (likely or {}).get(str(name))
            table.add_row("" if sure is None else Text(f"{sure:.2f}", "yellow"), _rests_on(value, found))
    return table


def _rests_on(value: Any, found: list[Evidence]) -> Text:
    if not found and value is None:
        return Text("nothing was found for it", "dim")
    if not found:
        return Text("no evidence in the variables or the history", "yellow")
    lines = []
    for one in found[:_QUOTES]:
        where = f"variable {one.variable}" if one.kind == "variable" else f"output of iteration {one.iteration}"
        lines.append(f"{clean(where)}: {one_line(one.quote, 70)}")
    if len(found) > _QUOTES:
        lines.append(f"and {count(len(found) - _QUOTES, 'more place')}")
    return Text("\n".join(lines), "dim")


def _partial(result: Failed) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if result.partial_outputs is not None:
        shown = clean(json.dumps(result.partial_outputs, ensure_ascii=False, indent=2, default=str))
        parts += [Text(""), Text("What there is of an answer (it was not accepted):"), Text(shown, "yellow")]
    if result.history:
        last = result.history[-1]
        kept = f"{count(len(result.history), 'iteration')} kept in the result (--json has them)"
        parts += [Text(""), Text(f"{kept}; the last one printed:"), Text(_tail(last.output), "dim")]
    return parts


def _tail(text: str, lines: int = 6) -> str:
    return "\n".join("  " + line[:200] for line in clean(text[-4000:]).splitlines()[-lines:]) or "  nothing"


def _about(name: str, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(name, Text(clean(text)))
    return grid
