"""Evaluations for people, in a terminal: a summary, a list of logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..formatting import clean, count, duration, money, one_line
from .recorded_runs import STYLES, about
from .tables import Columns, fits, fitting, table_of

if TYPE_CHECKING:
    from ...evals.log import EvalLog
    from ...evals.summary import Estimate, Summary
    from ...evals.summary import Group as Entries

_NONE = "-"
_ERROR = 200
_ENDINGS = ("Submitted", "Extracted", "Failed")
_LESS = ("all right", "tokens", "time", "cost", "submitted", "extracted", "too long", "samples", "length")
"""Columns that a narrow terminal does without, these first."""


def show(page: RenderableType, output: Any = None) -> None:
    """Print a page, without spaces at the ends of lines."""
    target = output if output is not None else sys.stdout
    console = Console(file=target, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    with console.capture() as captured:
        console.print(page)
    target.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def length_text(length: int | None) -> str:
    """`64k`, `1M`, `1,234`."""
    if length is None:
        return "all"
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if length >= size and length % (size // 10) == 0:
            return f"{length / size:g}{unit}"
    return f"{length:,}"


# A summary ---------------------------------------------------------------------------------------------------------


def summary_page(header: Mapping[str, Any], summary: Summary) -> RenderableType:
    """The scores by suite and length, and what they took."""
    if summary.all is None:
        return Text("No sample is finished yet.")
    rows = [*summary.groups, *([summary.all] if len(summary.groups) > 1 else [])]
    models = dict.fromkeys(str(one) for one in header["models"].values())
    title = Text.assemble(("Evaluation", "bold"), f" · {clean(', '.join(models))}")
    if header.get("baseline"):
        title.append(f" · {header['baseline']} prompting, no REPL", "yellow")
    scores = _Scores(rows)
    parts: list[RenderableType] = [Rule(title, align="left", style="dim"), scores, Text("")]
    parts.append(_facts(summary.all, summary, header))
    parts += [Text(""), _Note(scores)]
    return Group(*parts, *_tiers(summary.all))


def _tiers(group: Entries) -> list[RenderableType]:
    """Which tier answered typed questions, and what to do about it."""
    from ...adapters.metrics import summary_of

    if not group.tiers:
        return []
    return [Text(""), Rule(Text("Typed answers"), align="left", style="dim"), Text(clean(summary_of(group.tiers)))]


class _Scores:
    """The groups of a summary as a table. A narrow terminal gets fewer columns."""

    def __init__(self, rows: Sequence[Entries]) -> None:
        self._rows = rows
        self._epochs = max(max(row.passes, default=1) for row in rows)

    def columns(self, width: int) -> Columns:
        """The cells of each column that there is room for, by its heading."""
        told = self._all({"endings": [_endings(row) for row in self._rows]})
        return told if fits(told, width) else fitting(self._all(self._counted()), width, _LESS)

    def _all(self, endings: Columns) -> dict[str, Sequence[Text]]:
        rows = self._rows
        suites = [Text(clean(row.suite)) if row.suite is not None else Text("all", "bold") for row in rows]
        made: dict[str, Sequence[Text]] = {"suite": suites}
        made["length"] = [Text(length_text(one.length) if one.suite is not None else "") for one in rows]
        made["samples"] = [Text(f"{row.samples:,}") for row in rows]
        made["score"] = [_estimate(row.score, "bold") for row in rows]
        made["all right"] = [_estimate(row.right) for row in rows]
        if self._epochs > 1:
            made[f"pass^{self._epochs}"] = [_pass(row, self._epochs) for row in rows]
        made |= endings
        made["tokens"] = [Text(f"{(row.tokens_in + row.tokens_out) / row.tries:,.0f}") for row in rows]
        made["cost"] = [_cost(row) for row in rows]
        made["time"] = [Text(duration(row.seconds / row.tries)) for row in rows]
        return made

    def _counted(self) -> dict[str, Sequence[Text]]:
        """The endings as columns of their own, where words would not fit."""
        made: dict[str, Sequence[Text]] = {}
        for ending in (one for one in _ENDINGS if any(row.endings.get(one) for row in self._rows)):
            style = STYLES[ending.lower()].removeprefix("bold ")
            made[ending.lower()] = [Text(f"{row.endings.get(ending, 0):,}", style) for row in self._rows]
        if any(row.too_long for row in self._rows):
            made["too long"] = [Text(f"{row.too_long:,}", "dim") for row in self._rows]
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield table_of(self.columns(options.max_width), left=("suite", "endings"))


class _Note:
    """What the columns are, as far as they are shown."""

    def __init__(self, scores: _Scores) -> None:
        self._scores = scores

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._scores.columns(options.max_width)
        *others, last = [name for name in ("tokens", "cost", "time") if name in shown] or [""]
        means = f"{', '.join(others)} and {last}" if others else last
        said = f" {means.capitalize()} {'are means' if others else 'is the mean'} of a run." if means else ""
        yield Text(f"± is one standard error, over samples.{said}", "dim")


def _pass(row: Entries, k: int) -> Text:
    return _estimate(row.passes[k]) if k in row.passes else Text(_NONE, "dim")


def _cost(row: Entries) -> Text:
    return Text(_NONE, "dim") if row.cost_usd is None else Text(money(row.cost_usd / row.tries))


def _estimate(one: Estimate, style: str = "") -> Text:
    made = Text(f"{one.mean:.3f}", style)
    return made.append(f" ±{one.error:.3f}" if one.error is not None else "       ", "dim not bold")


def _endings(row: Entries) -> Text:
    parts = Text("")
    for name in _ENDINGS:
        if row.endings.get(name):
            parts.append(" · " if parts else "", "dim")
            parts.append(f"{row.endings[name]:,} {name.lower()}", STYLES[name.lower()].removeprefix("bold "))
    if row.too_long:
        parts.append(f" ({row.too_long:,} too long)", "dim")
    return parts


def _facts(group: Entries, summary: Summary, header: Mapping[str, Any]) -> RenderableType:
    cost = "unknown" if group.cost_usd is None else money(group.cost_usd)
    if group.cost_usd is not None and group.unpriced_calls:
        cost += f" (not counting {count(group.unpriced_calls, 'call')})"
    tries = f"{group.tries:,} of {summary.total:,}" + (f", {header['epochs']} epochs" if header["epochs"] > 1 else "")
    passes = ", ".join(f"k={k} {one.mean:.3f}" for k, one in group.passes.items()) if len(group.passes) > 1 else None
    fields = ", ".join(f"{clean(name)} {mean:.3f}" for name, mean in group.fields.items())
    errors = group.errors - group.too_long
    calls = count(group.llm_calls, "LLM call")
    used = f"{group.tokens_in:,} tokens read, {group.tokens_out:,} written; {calls} from the code"
    too_long = Text(f"{count(group.too_long, 'input')} did not fit; they score 0", "yellow")
    more = (summary.spent_usd or 0) > (group.cost_usd or 0)
    rows: list[tuple[str, RenderableType | None]] = [
        ("runs", Text(tries)),
        ("outputs", Text(fields) if len(group.fields) > 1 else None),
        ("pass^k", Text(passes) if passes else None),
        ("too long", too_long if group.too_long else None),
        ("errors", Text(f"{count(errors, 'run')} broke off; they score 0", "red") if errors else None),
        *(("", Text(f"{times:,} x {one_line(said, _ERROR)}", "dim")) for said, times in group.said.items()),
        ("used", Text(used)),
        ("cost", Text(f"{cost}, in {duration(group.seconds)} of runs")),
        ("", Text(f"{money(summary.spent_usd or 0)} with runs that were tried again") if more else None),
    ]
    return about(rows)


# Logs --------------------------------------------------------------------------------------------------------------


def logs_table(logs: Sequence[EvalLog]) -> Table:
    """What has been run."""
    from ...evals.summary import summarize

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("log", overflow="fold")
    table.add_column("model", overflow="ellipsis", no_wrap=True)
    for name in ("length", "done", "score", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for log in logs:
        group = summarize(log).all
        lengths = ",".join(dict.fromkeys(length_text(one.length) for one in log.entries))
        cost = _NONE if group is None or group.cost_usd is None else money(group.cost_usd)
        score = Text(_NONE, "dim") if group is None else _estimate(group.score, "bold")
        model = Text(one_line(str(log.header["models"]["main"]), 40))
        table.add_row(
            Text(clean(log.name)), model, lengths or _NONE, f"{len(log.entries):,} of {log.expected:,}", score, cost
        )
    return table
