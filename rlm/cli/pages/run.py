"""The page of one recorded run: its start, its budget, each iteration, the extraction and the ending."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ...results import Evidence
from ..console import clean, count, dollars, duration, middle_cut, one_line
from .plans import decision_lines
from .result import outputs_table
from .runs_table import STYLES, RunsTable, batch_of, ending_text
from .tables import facts_table, heading, section

if TYPE_CHECKING:
    from ...traces import RunRecord
    from ...traces.records import AttemptRecord, HostCallRecord, IterationRecord, VariableChanges

_OUTPUT_LINES = 12
_CALLS = 8


def run_page(run: RunRecord) -> RenderableType:
    """Return a run from its start to its ending."""
    parts: list[RenderableType] = [_header(run), *_budget(run), *decision_lines(run)]
    parts += [iteration_page(iteration) for iteration in run.iterations]
    parts += _extraction(run)
    parts += _tiers(run)
    parts += _children(run)
    parts += _result(run)
    return Group(*parts)


def iteration_page(iteration: IterationRecord, *, cut: bool = True) -> RenderableType:
    """Return one iteration: the reasoning, the code, the calls, the output and the variables."""
    mark = ("✓", "green") if iteration.success else ("✗", "red") if iteration.output is not None else ("…", "magenta")
    title = Text.assemble(f"Iteration {iteration.number} ", mark)
    if iteration.seconds is not None:
        title.append(f" {_seconds(iteration.seconds)}", "dim")
    parts = section(title)
    if iteration.reasoning:
        parts.append(Text(clean(iteration.reasoning.strip()), "italic"))
    if iteration.code:
        code = clean(iteration.code)
        parts.append(Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True))
    parts += [Padding(part, (0, 0, 0, 2)) for part in _observation(iteration, cut)]
    return Group(*parts)


def _header(run: RunRecord) -> RenderableType:
    start = run.beginning
    models = list(dict.fromkeys(str(model) for model in (start.get("models") or {}).values()))
    full_reason = (run.result() or {}).get("reason")  # the list of runs has only its first characters
    reason = full_reason if isinstance(full_reason, str) else run.reason
    call = "" if run.parent_call is None else f", call {run.parent_call}"
    batch, item = batch_of(run)
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started))
    facts: list[tuple[str, str | None]] = [
        ("task", run.task or run.name),
        ("item", f"{item} of {batch}" if batch else None),
        ("started", started),
        ("models", ", ".join(models) or None),
        ("inputs", _inputs(start)),
        ("ending", run.ending),
        ("reason", reason or None),
        ("child of", None if run.parent is None else f"run {run.parent}{call}"),
        ("continues", None if run.resumed_from is None else f"run {run.resumed_from}"),
        ("resumed by", None if run.resumed_by is None else f"run {run.resumed_by}"),
    ]
    table = facts_table(
        (name, ending_text(run) if name == "ending" else Text(clean(text))) for name, text in facts if text is not None
    )
    return Group(heading(f"Run {clean(run.id)}", "bold"), table)


def _inputs(start: dict[str, Any]) -> str:
    parts = []
    for name, value in (start.get("inputs") or {}).items():
        size = value.get("size")
        unit = {"text": "character", "bytes": "byte"}.get(value.get("kind"), "item")
        unit = "byte" if value.get("type") == "File" else unit
        shown = count(size, unit) if isinstance(size, int) else one_line(str(value.get("value")), 40)
        parts.append(f"{clean(str(name))} ({shown})")
    return ", ".join(parts) or "none"


def _budget(run: RunRecord) -> list[RenderableType]:
    events = run.events(kinds=["budget"])
    if not events:
        return []
    used = events[-1].data
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(width=24)
    grid.add_column(no_wrap=True)
    gauges = (
        ("iterations", "max_iterations", lambda value: f"{value:,}"),
        ("llm_calls", "max_llm_calls", lambda value: f"{value:,}"),
        ("seconds", "max_duration", duration),
        ("tokens", "max_tokens", lambda value: f"{value:,}"),
        ("cost_usd", "max_cost_usd", dollars),
    )
    for name, limit_name, text in gauges:
        value, limit = used.get(name), used.get(limit_name)
        if name in ("seconds", "tokens"):  # the extraction, which comes after the last budget event, uses some too
            value = run.duration if name == "seconds" else run.tokens
        if not isinstance(value, int | float):
            continue
        if isinstance(limit, int | float) and limit > 0:
            style = "red" if value >= limit else "green"
            bar: RenderableType = ProgressBar(limit, min(value, limit), complete_style=style, finished_style="red")
            grid.add_row(name, bar, f"{text(value)} of {text(limit)}")
        elif value:
            grid.add_row(name, "", text(value))
    return [Text(""), grid]


def _observation(iteration: IterationRecord, cut: bool) -> Iterable[RenderableType]:
    if iteration.calls:
        yield _calls(iteration.calls, cut)
    if iteration.output:
        shown = middle_cut(iteration.output, _OUTPUT_LINES) if cut else clean(iteration.output)
        yield Text(shown, "" if iteration.success else "red")
    elif iteration.output is None and not iteration.finished:
        yield Text("the record ends here", "magenta")
    if iteration.limit:
        yield Text(f"limit: {clean(iteration.limit)}", "yellow")
    for hint in iteration.hints:
        yield Text(clean(hint), "dim")
    if iteration.variables:
        yield _variables(iteration.variables)


def _calls(calls: Sequence[HostCallRecord], cut: bool) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for call in calls[:_CALLS] if cut else calls:
        seconds = "…" if call.seconds is None else _seconds(call.seconds)
        if call.error:
            answer = Text(one_line(call.error, 200), "red")
        else:
            answer = Text(one_line("" if call.answer in (None, "null") else call.answer, 90), "dim")
        table.add_row(f"{clean(call.name)}()", seconds, answer)
    if cut and len(calls) > _CALLS:
        table.add_row("", "", Text(f"and {count(len(calls) - _CALLS, 'more call')}", "dim"))
    return table


def _variables(variables: VariableChanges) -> RenderableType:
    lines = []
    for mark, style, changed in (("+", "green", variables.added), ("~", "yellow", variables.changed)):
        for name, variable in changed.items():
            about = f"{clean(str(variable.get('type')))} {one_line(str(variable.get('preview') or ''), 160)}"
            lines.append(Text.assemble((f"{mark} {clean(name)} ", style), (about, "dim")))
    lines += [Text(f"- {clean(name)}", "red") for name in variables.removed]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _extraction(run: RunRecord) -> list[RenderableType]:
    fired = run.events(kinds=["trigger_fired"])
    if not fired:
        return []
    reason = Text(clean(str(run.resolve(fired[-1].data.get("reason")))))
    return section("Extraction", reason, *(_attempt(attempt) for attempt in run.attempts), style="yellow")


def _attempt(attempt: AttemptRecord) -> RenderableType:
    problems = attempt.problems
    state = Text(count(len(problems), "problem"), "red") if problems else Text("accepted", "green")
    lines: list[RenderableType] = [Text.assemble(f"attempt {attempt.number}: ", state)]
    for problem in problems[:5]:
        lines.append(Padding(Text(one_line(str(problem.get("message")), 300), "red"), (0, 0, 0, 2)))
    lines.append(Padding(Text(middle_cut(attempt.text, 8), "dim"), (0, 0, 0, 2)))
    return Group(*lines)


def _tiers(run: RunRecord) -> list[RenderableType]:
    """Return which tier answered typed queries, and the advice that follows from it."""
    from ...adapters.metrics import summary_of

    events = run.events(kinds=["tiers"])
    if not events:
        return []
    return section("Typed answers", Text(clean(summary_of(run.resolve(events[-1].data)["by_signature"]))))


def _children(run: RunRecord) -> list[RenderableType]:
    return section("Child runs", RunsTable(run.children)) if run.children else []


def _result(run: RunRecord) -> list[RenderableType]:
    result = run.result()
    if result is None:
        text = "It is still running." if run.ending == "running" else "The record ends here: the run did not finish."
        return [Text(""), Text(text, STYLES.get(run.ending, ""))]
    parts = section(ending_text(run))
    outputs = result.get("outputs")
    if isinstance(outputs, dict):
        evidence = [_evidence(item) for item in result.get("evidence") or ()] if "evidence" in result else None
        parts.append(outputs_table(outputs, evidence, result.get("field_confidence")))
    if result.get("partial_outputs") is not None:
        parts.append(Text("Partial answer (not accepted):"))
        parts.append(Text(clean(json.dumps(result["partial_outputs"], ensure_ascii=False, indent=2)), "yellow"))
    if result.get("extraction_notes"):
        parts.append(facts_table([("notes", Text(clean(str(result["extraction_notes"]))))]))
    return parts


def _evidence(recorded: Mapping[str, Any]) -> Evidence:
    """Return recorded evidence; what another version wrote that is not understood is left out."""
    try:
        return Evidence.from_dict({**recorded, "path": str(recorded.get("path") or "/")})
    except (KeyError, TypeError, IndexError):
        return Evidence("/" + str(recorded.get("path") or "").strip("/"), "none")


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.1 else duration(seconds)
