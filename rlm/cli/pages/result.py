"""The ending of a run: which of the three it is, the outputs, the evidence for them, and what the run used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...evidence_text import describe
from ...results import Evidence, ExecutionResult, Extracted, Failed, Submitted
from ..console import clean, count, one_line, said_instead_of_code, usage_text, value_text
from .plans import plan_part
from .tables import facts_table, heading

_TAIL_LINES = 6
_MAX_ORIGINS = 10  # of a partial answer


def result_page(result: ExecutionResult[Any], *, notice: str | None = None) -> RenderableType:
    """Return the ending of a run as a page."""
    parts: list[RenderableType]
    match result:
        case Submitted():
            title = Text.assemble(("Submitted", "bold green"), f", {result.trust}")
            parts = [_outputs(result.outputs, result.evidence or None, result.field_confidence)]
            if result.notes:
                parts += [Text(""), facts_table([("notes", Text(clean(result.notes)))])]
        case Extracted():
            title = Text.assemble(("Extracted", "bold yellow"), f", {result.trust}")
            parts = [
                facts_table([("reason", Text(clean(str(result.reason))))]),
                Text(""),
                _outputs(result.outputs, result.evidence, result.field_confidence),
            ]
            if result.extraction_notes:
                parts += [Text(""), facts_table([("notes", Text(clean(result.extraction_notes)))])]
        case Failed():
            title = Text("Failed", "bold red")
            parts = [facts_table([("reason", Text(clean(result.reason)))]), *_partial(result)]
    if result.plan is not None:
        parts += [Text(""), plan_part(result.plan)]
    if result.agreement is not None:
        parts += [Text(""), *agreement_part(result.agreement)]
    usage = Text(usage_text(result.usage, result.iterations or None), "dim")
    run = Text(f"run {clean(result.run_id)}", "dim") if result.run_id else Text("")
    return Group(heading(title), *parts, Text(""), usage, run, *([Text(notice, "yellow")] if notice else []))


def agreement_part(agreement: Mapping[str, Any]) -> list[RenderableType]:
    """Return what several runs said, a line for each, with the first line of code in which a dissenter differed."""
    table = facts_table()
    for number, run in enumerate(agreement["runs"], 1):
        answer = value_text(run["outputs"]) if run.get("outputs") is not None else run.get("reason") or ""
        style = "yellow" if run.get("differs") or run.get("outputs") is None else "dim"
        name, where = f"run {number}", clean(str(run["run_id"]))
        if "iteration" in run:  # several scripts in one run
            name, where = f"script {number}", f"cell {run['iteration']}"
        table.add_row(name, Text(f"{where} {run['ending']}: {one_line(clean(answer), 90)}", style))
        if difference := run.get("first_difference"):
            line, other = (one_line(clean(difference[name]), 50) or "nothing" for name in ("code", "other"))
            table.add_row("", Text(f"differs first in cell {difference['iteration']}: {line} (not: {other})", "dim"))
    if agreement.get("reconciled"):
        table.add_row("", Text("the last run saw the programs of the others, and decided", "dim"))
    return [table]


def _outputs(
    outputs: Any, evidence: tuple[Evidence, ...] | None = None, field_confidence: Mapping[str, float] | None = None
) -> Table:
    values = to_jsonable_python(outputs, fallback=str)
    return outputs_table(values if isinstance(values, dict) else {"": values}, evidence, field_confidence)


def _partial(result: Failed) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if result.partial_outputs is not None:
        shown = clean(json.dumps(result.partial_outputs, ensure_ascii=False, indent=2, default=str))
        parts += [Text(""), Text("Partial answer (not accepted):"), Text(shown, "yellow")]
        origins = [
            Text(f"{piece.field}: {clean(describe(piece))}", "dim") for piece in result.evidence if piece.is_origin
        ]
        parts += origins[:_MAX_ORIGINS]
    if result.history:
        recorded = f"{count(len(result.history), 'iteration')} in the result (shown with --json)"
        last = result.history[-1]
        shown = last.output if last.code else said_instead_of_code(last.reasoning)
        parts += [Text(""), Text(f"{recorded}; output of the last one:"), Text(_tail(shown), "dim")]
    return parts


def _tail(text: str) -> str:
    lines = clean(text[-4000:]).splitlines()[-_TAIL_LINES:]
    return "\n".join("  " + line[:200] for line in lines) or "  nothing"


_QUOTES = 3


def outputs_table(
    outputs: Mapping[str, Any],
    evidence: Sequence[Evidence] | None = None,
    field_confidence: Mapping[str, float] | None = None,
) -> Table:
    """Return each output with its value, its confidence by a calibrator, and its evidence."""
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
    lines: list[tuple[str, str]] = []
    for item in sorted(evidence, key=lambda item: (not item.is_origin, item.kind in ("variable", "history")))[:_QUOTES]:
        style = "yellow" if item.is_unsupported or item.verdict == "differs" else "dim"
        lines.append((clean(describe(item)), style))
    if len(evidence) > _QUOTES:
        lines.append((f"and {count(len(evidence) - _QUOTES, 'more place')}", "dim"))
    return Text("\n").join(Text(line, style) for line, style in lines)
