"""Recorded runs for people, in a terminal: a list of them, and one of them whole."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ...text import shorten
from ..formatting import clean, count, duration, money, one_line, value_text
from .plans import decided

if TYPE_CHECKING:
    from ...traces import RunRecord
    from ...traces.records import AttemptRecord, HostCallRecord, IterationRecord, VariableChanges

STYLES = {
    "submitted": "bold green",
    "extracted": "bold yellow",
    "failed": "bold red",
    "running": "bold blue",
    "unfinished": "bold magenta",
}
_OUTPUT_LINES = 12
_CALLS = 8
_QUOTES = 3


class RunsTable:
    """A list of runs. A narrow terminal gets fewer columns."""

    def __init__(self, runs: Sequence[RunRecord]) -> None:
        self._runs = runs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= 100
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        table.add_column("run", no_wrap=True)
        table.add_column("started", no_wrap=True, style="dim")
        if wide:
            table.add_column("task", no_wrap=True, ratio=2, overflow="ellipsis")
        table.add_column("ending", no_wrap=True)
        table.add_column("answer or reason", no_wrap=True, ratio=4, overflow="ellipsis")
        for name in ("iter", "tokens", "cost") if wide else ("iter",):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        for run in self._runs:
            table.add_row(*_row(run, wide))
        yield table


def run_page(run: RunRecord) -> RenderableType:
    """A run from its beginning to its end."""
    parts: list[RenderableType] = [_header(run), *_budget(run), *decided(run)]
    parts += [iteration_page(one) for one in run.iterations]
    parts += _extraction(run)
    parts += _tiers(run)
    parts += _children(run)
    parts += _result(run)
    return Group(*parts)


def iteration_page(one: IterationRecord, *, cut: bool = True) -> RenderableType:
    """One iteration: the thought, the code, what came of it, the calls and the variables."""
    mark = ("✓", "green") if one.success else ("✗", "red") if one.output is not None else ("…", "magenta")
    title = Text.assemble(f"Iteration {one.number} ", mark)
    if one.seconds is not None:
        title.append(f" {_took(one.seconds)}", "dim")
    parts: list[RenderableType] = [Text(""), Rule(title, align="left", style="dim")]
    if one.reasoning:
        parts.append(Text(clean(one.reasoning.strip()), "italic"))
    if one.code:
        parts.append(Syntax(clean(one.code), "python", theme="ansi_dark", background_color="default", word_wrap=True))
    parts += [Padding(part, (0, 0, 0, 2)) for part in _outcome(one, cut)]
    return Group(*parts)


def about(rows: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """Names and what they are, in two columns; what is None is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, value)
    return grid


def ending(run: RunRecord) -> Text:
    """How a run ended, in its colour, with the confidence where that says anything."""
    text = Text(run.ending, STYLES.get(run.ending, ""))
    if run.ending == "extracted" and run.confidence is not None:
        text.append(f" {run.confidence:.2f}", "yellow")
    return text


def moment(seconds: float) -> str:
    """A point in time, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def size(count_bytes: int) -> str:
    """`512 bytes`, `1.2 MB`."""
    if count_bytes < 1000:
        return count(count_bytes, "byte")
    power = min(4, (len(str(count_bytes)) - 1) // 3)
    return f"{count_bytes / 1000**power:.1f} {('', 'kB', 'MB', 'GB', 'TB')[power]}"


def _row(run: RunRecord, wide: bool) -> list[RenderableType]:
    cells: list[RenderableType] = [Text(clean(run.id)), time.strftime("%m-%d %H:%M", time.localtime(run.started))]
    if wide:
        cells.append(Text(one_line(_short(run), 80)))
    cells += [ending(run), Text(one_line(run.answer or run.reason or "", 160)), str(run.iterations_used)]
    if wide:
        cells += [f"{run.tokens:,}", "" if run.cost_usd is None else money(run.cost_usd)]
    return [*cells, duration(run.duration)]


def _short(run: RunRecord) -> str:
    """The task as it tells runs apart in a narrow column: the file, with its folder where many have that name."""
    parts = PurePath(run.task).parts if run.task else (run.name,)
    return "/".join(parts[-2:] if parts[-1] == "task.yaml" else parts[-1:])


def batch_of(run: RunRecord) -> tuple[str | None, str | None]:
    """The results file of the batch that a run belongs to, and the name of its item there."""
    task = run.beginning.get("task") or {}
    return run.resolve(task.get("batch")), run.resolve(task.get("item"))


def _header(run: RunRecord) -> RenderableType:
    start = run.beginning
    models = list(dict.fromkeys(str(one) for one in (start.get("models") or {}).values()))
    whole = (run.result() or {}).get("reason")  # in the list of runs only how it begins
    reason = whole if isinstance(whole, str) else run.reason
    in_call = "" if run.parent_call is None else f", call {run.parent_call}"
    resumed = None if run.resumed_from is None else Text(f"run {clean(run.resumed_from)}")
    parent = None if run.parent is None else Text(f"run {clean(run.parent)}{in_call}")
    batch, item = batch_of(run)
    table = about(
        [
            ("task", Text(clean(run.task or run.name))),
            ("item", Text(clean(f"{item} of {batch}")) if batch else None),
            ("started", Text(moment(run.started))),
            ("models", Text(clean(", ".join(models))) if models else None),
            ("inputs", Text(_inputs(start))),
            ("ending", ending(run)),
            ("reason", Text(clean(reason)) if reason else None),
            ("child of", parent),
            ("goes on from", resumed),
        ]
    )
    return Group(Rule(Text(f"Run {clean(run.id)}", "bold"), align="left", style="dim"), table)


def _inputs(start: dict[str, Any]) -> str:
    parts = []
    for name, one in (start.get("inputs") or {}).items():
        size = one.get("size")
        unit = {"text": "character", "bytes": "byte"}.get(one.get("kind"), "item")
        shown = count(size, unit) if isinstance(size, int) else one_line(str(one.get("value")), 40)
        parts.append(f"{clean(str(name))} ({shown})")
    return ", ".join(parts) or "none"


def _budget(run: RunRecord) -> list[RenderableType]:
    found = run.events(kinds=["budget"])
    if not found:
        return []
    used = found[-1].data
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(width=24)
    grid.add_column(no_wrap=True)
    gauges = (
        ("iterations", "max_iterations", lambda value: f"{value:,}"),
        ("llm_calls", "max_llm_calls", lambda value: f"{value:,}"),
        ("seconds", "max_duration", duration),
        ("tokens", "max_tokens", lambda value: f"{value:,}"),
        ("cost_usd", "max_cost_usd", money),
    )
    for name, limit, text in gauges:
        value, most = used.get(name), used.get(limit)
        if name in ("seconds", "tokens"):  # the extraction, which comes after the last budget, uses some too
            value = run.duration if name == "seconds" else run.tokens
        if not isinstance(value, int | float):
            continue
        if isinstance(most, int | float) and most > 0:
            style = "red" if value >= most else "green"
            bar: RenderableType = ProgressBar(most, min(value, most), complete_style=style, finished_style="red")
            grid.add_row(name, bar, f"{text(value)} of {text(most)}")
        elif value:
            grid.add_row(name, "", text(value))
    return [Text(""), grid]


def _outcome(one: IterationRecord, cut: bool) -> Iterable[RenderableType]:
    if one.calls:
        yield _calls(one.calls, cut)
    if one.output:
        yield Text(_shortened(one.output, _OUTPUT_LINES) if cut else clean(one.output), "" if one.success else "red")
    elif one.output is None and not one.finished:
        yield Text("the record ends here", "magenta")
    if one.limit:
        yield Text(f"limit: {clean(one.limit)}", "yellow")
    for hint in one.hints:
        yield Text(clean(hint), "dim")
    if one.variables:
        yield _variables(one.variables)


def _calls(calls: Sequence[HostCallRecord], cut: bool) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for call in calls[:_CALLS] if cut else calls:
        took = "…" if call.seconds is None else _took(call.seconds)
        said = (
            Text(one_line(call.error, 200), "red")
            if call.error
            else Text(one_line("" if call.answer in (None, "null") else call.answer, 90), "dim")
        )
        table.add_row(f"{clean(call.name)}()", took, said)
    if cut and len(calls) > _CALLS:
        table.add_row("", "", Text(f"and {count(len(calls) - _CALLS, 'more call')}", "dim"))
    return table


def _variables(variables: VariableChanges) -> RenderableType:
    lines = []
    for mark, style, found in (("+", "green", variables.added), ("~", "yellow", variables.changed)):
        for name, one in found.items():
            about = f"{clean(str(one.get('type')))} {one_line(str(one.get('preview') or ''), 160)}"
            lines.append(Text.assemble((f"{mark} {clean(name)} ", style), (about, "dim")))
    lines += [Text(f"- {clean(name)}", "red") for name in variables.removed]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _extraction(run: RunRecord) -> list[RenderableType]:
    fired = run.events(kinds=["trigger_fired"])
    if not fired:
        return []
    reason = run.resolve(fired[-1].data.get("reason"))
    parts: list[RenderableType] = [Text(""), Rule(Text("Extraction", "yellow"), align="left", style="dim")]
    parts.append(Text(clean(str(reason))))
    return [*parts, *(_attempt(one) for one in run.attempts)]


def _attempt(one: AttemptRecord) -> RenderableType:
    state = Text("accepted", "green") if not one.problems else Text(count(len(one.problems), "problem"), "red")
    lines: list[RenderableType] = [Text.assemble(f"attempt {one.number}: ", state)]
    for problem in one.problems[:5]:
        lines.append(Padding(Text(one_line(str(problem.get("message")), 300), "red"), (0, 0, 0, 2)))
    lines.append(Padding(Text(_shortened(one.text, 8), "dim"), (0, 0, 0, 2)))
    return Group(*lines)


def _tiers(run: RunRecord) -> list[RenderableType]:
    """Which tier answered typed questions, and what to do about it."""
    from ...adapters.metrics import summary_of

    found = run.events(kinds=["tiers"])
    if not found:
        return []
    told = summary_of(run.resolve(found[-1].data)["by_signature"])
    return [Text(""), Rule(Text("Typed answers"), align="left", style="dim"), Text(clean(told))]


def _children(run: RunRecord) -> list[RenderableType]:
    children = run.children
    if not children:
        return []
    return [Text(""), Rule(Text("Child runs"), align="left", style="dim"), RunsTable(children)]


def _result(run: RunRecord) -> list[RenderableType]:
    result = run.result()
    if result is None:
        told = "It is still running." if run.ending == "running" else "The record ends here: the run was not finished."
        return [Text(""), Text(told, STYLES.get(run.ending, ""))]
    parts: list[RenderableType] = [Text(""), Rule(ending(run), align="left", style="dim")]
    outputs = result.get("outputs")
    if isinstance(outputs, dict):
        parts.append(_outputs(outputs, result.get("evidence")))
    if result.get("partial_outputs") is not None:
        parts.append(Text("What there is of an answer:"))
        parts.append(Text(clean(json.dumps(result["partial_outputs"], ensure_ascii=False, indent=2)), "yellow"))
    if result.get("extraction_notes"):
        parts.append(about([("notes", Text(clean(str(result["extraction_notes"]))))]))
    return parts


def _outputs(outputs: dict[str, Any], evidence: Any) -> RenderableType:
    table = about([])
    for name, value in outputs.items():
        table.add_row(Text(clean(str(name)), "bold"), Text(value_text(value)))
        if isinstance(evidence, list):
            pointer = "/" + str(name).replace("~", "~0").replace("/", "~1")
            found = [one for one in evidence if (str(one.get("path")) + "/").startswith(pointer + "/")]
            table.add_row("", _rests_on(found))
    return table


def _rests_on(found: list[dict[str, Any]]) -> Text:
    if not found:
        return Text("no evidence in the variables or the history", "yellow")
    lines = []
    for one in found[:_QUOTES]:
        variable = one.get("kind") == "variable"
        where = f"variable {one.get('variable')}" if variable else f"output of iteration {one.get('iteration')}"
        lines.append(f"{clean(where)}: {one_line(str(one.get('quote')), 70)}")
    if len(found) > _QUOTES:
        lines.append(f"and {count(len(found) - _QUOTES, 'more place')}")
    return Text("\n".join(lines), "dim")


def _took(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.1 else duration(seconds)


def _shortened(text: str, most: int, width: int = 400) -> str:
    lines = [shorten(line, width) for line in clean(text[:100_000]).splitlines()]
    if len(lines) <= most:
        return "\n".join(lines)
    left_out = text.count("\n") + 1 - most
    return "\n".join([*lines[: most // 2], f"[… {count(left_out, 'line')} …]", *lines[-(most - most // 2) :]])
