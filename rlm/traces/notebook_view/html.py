"""Runs and lists of runs as HTML tables. A trace is untrusted text, so every text is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from ...result_html import COLOURS
from ...text import clean, cut_middle, dollars

if TYPE_CHECKING:
    from ..records import IterationRecord
    from ..runs import RunRecord, Runs

_ROWS = 50
_CHARS = 4_000


def runs_html(runs: Runs) -> str:
    """Return a table of runs."""
    head = (
        "run",
        "started",
        "task",
        "ending",
        "confidence",
        "answer or reason",
        "iterations",
        "tokens",
        "cost",
        "time",
    )
    rows = [_row(run) for run in runs[:_ROWS]]
    more = f"<p>and {len(runs) - _ROWS:,} more</p>" if len(runs) > _ROWS else ""
    skipped = "".join(f"<p>not read: {_text(reason)}</p>" for reason in runs.skipped)
    return f"<div>{_table(head, rows)}{more}{skipped}</div>"


def run_html(run: RunRecord) -> str:
    """Return one run: its ending, and its iterations, which open on a click."""
    about = [
        ("run", _text(run.id)),
        ("task", _text(run.task or run.name)),
        ("started", _time(run.started)),
        ("ending", _ending(run)),
        ("reason", _text(run.reason or "")),
        ("answer", _text(run.answer or "")),
        ("used", _text(_used(run))),
    ]
    head = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in about if value
    )
    return f"<div><table>{head}</table>{''.join(_iteration(iteration) for iteration in run.iterations)}</div>"


def _row(run: RunRecord) -> list[str]:
    confidence = "" if run.shown_confidence is None else f"{run.shown_confidence:.2f}"
    cost = "" if run.cost_usd is None else dollars(run.cost_usd)
    numbers = [f"{run.iterations_used}", f"{run.tokens:,}", cost, f"{run.duration:.1f} s"]
    answer = _text((run.answer or run.reason or "")[:120])
    start = [f"<code>{_text(run.id)}</code>", _time(run.started), _text(run.task or run.name), _ending(run)]
    return [*start, confidence, answer, *numbers]


def _iteration(iteration: IterationRecord) -> str:
    state = "" if iteration.success else " · error" if iteration.output is not None else " · not finished"
    calls = f" · {_count(len(iteration.calls), 'call')}" if iteration.calls else ""
    parts = [f"<p>{_text(iteration.reasoning)}</p>"] if iteration.reasoning else []
    parts += [_pre(iteration.code), _pre(iteration.output or "", "opacity:.8")]
    return f"<details><summary>Iteration {iteration.number}{state}{calls}</summary>{''.join(parts)}</details>"


def _table(head: Iterable[str], rows: Iterable[list[str]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _pre(text: str, style: str = "") -> str:
    return f"<pre style='white-space:pre-wrap;{style}'>{_text(text)}</pre>" if text else ""


def _text(text: str) -> str:
    return escape(clean(cut_middle(text, _CHARS)))


def _ending(run: RunRecord) -> str:
    return f"<b style='color:{COLOURS.get(run.ending, 'inherit')}'>{_text(run.ending)}</b>"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _used(run: RunRecord) -> str:
    cost = "" if run.cost_usd is None else f", {dollars(run.cost_usd)}"
    iterations = f"{_count(run.iterations_used, 'iteration')}, {_count(run.llm_calls, 'LLM call')} from the code"
    return f"{iterations}, {run.tokens:,} tokens{cost}, {run.duration:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
