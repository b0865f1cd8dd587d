"""A result as HTML, for notebooks. Its texts are untrusted: every one is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from .evidence_text import describe
from .json_values import dump
from .text import clean, count, cut_middle, dollars

if TYPE_CHECKING:
    from .results import Evidence, ExecutionResult

COLOURS = {
    "submitted": "#1a7f37",
    "extracted": "#9a6700",
    "failed": "#cf222e",
    "running": "#0969da",
    "unfinished": "#6e7781",
    "resumed": "#6e7781",
}
"""The color of each ending, in tables and charts."""

_CHARS = 2_000
_QUOTES = 3
_DOUBT = f" style='color:{COLOURS['extracted']}'"


def result_html(result: ExecutionResult[Any]) -> str:
    """Return a result as HTML. Outputs and reasons are untrusted text: every text is escaped."""
    from .results import Extracted, Failed

    trust = "" if isinstance(result, Failed) else f", {text_html(result.trust)}"
    title = f"<b style='color:{COLOURS[result.status]}'>{result.status.capitalize()}</b>{trust}"
    rows = [("reason", text_html(result.reason))] if isinstance(result, Extracted | Failed) else []
    values = result.partial_outputs if isinstance(result, Failed) else to_jsonable_python(result.outputs, fallback=str)
    for name, value in (values if isinstance(values, dict) else {} if values is None else {"": values}).items():
        found = [piece for piece in result.evidence if piece.field == name]
        rows.append(
            (text_html(name), f"{text_html(value if isinstance(value, str) else dump(value))}{evidence_html(found)}")
        )
    notes = (
        None
        if isinstance(result, Failed)
        else getattr(result, "notes", None) or getattr(result, "extraction_notes", None)
    )
    rows += [("notes", text_html(notes))] if notes else []
    usage = result.usage
    facts = [count(result.iterations, "iteration"), f"{count(usage.llm_calls, 'LLM call')} from the code"]
    facts += [f"{usage.tokens:,} tokens"] if usage.tokens else []
    facts += [f"{dollars(usage.cost_usd)}"] if usage.cost_usd is not None else []
    used = " · ".join([*facts, f"{usage.seconds:.1f} s", f"run {text_html(result.run_id)}"])
    return f"<div>{title}{table_html(rows)}<small>{used}</small></div>"


def evidence_html(evidence: Sequence[Evidence]) -> str:
    """Return the evidence for one field, a line for each piece; what nothing supports stands out."""
    pieces = sorted(evidence, key=lambda piece: (not piece.is_origin, piece.kind in ("variable", "history")))
    return "".join(
        f"<br><small{_DOUBT if piece.is_unsupported else ''}>{text_html(describe(piece))}</small>"
        for piece in pieces[:_QUOTES]
    )


def table_html(rows: list[tuple[str, str]]) -> str:
    """Return a table of names and values, which are HTML already."""
    cells = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{name}</th>"
        f"<td style='text-align:left;white-space:pre-wrap'>{value}</td></tr>"
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def text_html(value: Any) -> str:
    """Return a text, shortened and escaped."""
    return escape(clean(cut_middle(str(value), _CHARS)))
