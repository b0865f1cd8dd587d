"""The summary of an evaluation, and a list of evaluation logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ..console import clean, count, dollars, duration, one_line
from .runs_table import STYLES
from .tables import Columns, facts_table, fits, fitting, heading, section, table_of

if TYPE_CHECKING:
    from ...evals.log import EvalLog
    from ...evals.summary import Estimate, EvalSummary, GroupSummary

_NONE = "-"
_ERROR = 200
_ENDINGS = ("Submitted", "Extracted", "Failed")
_OPTIONAL = ("all right", "tokens", "time", "cost", "submitted", "extracted", "too long", "samples", "length")
"""Columns that a narrow terminal drops, first to last."""


def length_text(length: int | None) -> str:
    """Return a length in characters: `64k`, `1M`, `1,234`; `all` for None."""
    if length is None:
        return "all"
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if length >= size and length % (size // 10) == 0:
            return f"{length / size:g}{unit}"
    return f"{length:,}"


# A summary ---------------------------------------------------------------------------------------------------------


def summary_page(header: Mapping[str, Any], summary: EvalSummary) -> RenderableType:
    """Return the scores by suite and length, the usage and the errors."""
    if summary.all is None:
        return Text("No sample is finished yet.")
    rows = [*summary.groups, *([summary.all] if len(summary.groups) > 1 else [])]
    models = dict.fromkeys(str(model) for model in header["models"].values())
    title = Text.assemble(("Evaluation", "bold"), f" · {clean(', '.join(models))}")
    if header.get("baseline"):
        title.append(f" · {header['baseline']} prompting, no REPL", "yellow")
    scores = _Scores(rows)
    parts: list[RenderableType] = [heading(title), scores, Text("")]
    parts.append(_facts(summary.all, summary, header))
    parts += [Text(""), _Note(scores)]
    return Group(*parts, *_tiers(summary.all))


def _tiers(group: GroupSummary) -> list[RenderableType]:
    """Return which tier answered typed queries, and the advice that follows from it."""
    from ...adapters.metrics import summary_of

    if not group.tiers:
        return []
    return section("Typed answers", Text(clean(summary_of(group.tiers))))


class _Scores:
    """The groups of a summary as a table. A narrow terminal gets fewer columns."""

    def __init__(self, rows: Sequence[GroupSummary]) -> None:
        self._rows = rows
        self._epochs = max(max(row.passes, default=1) for row in rows)

    def columns(self, width: int) -> Columns:
        """Return the columns that fit, by heading."""
        columns = self._all({"endings": [_endings(row) for row in self._rows]})
        return columns if fits(columns, width) else fitting(self._all(self._counted()), width, _OPTIONAL)

    def _all(self, endings: Columns) -> dict[str, Sequence[Text]]:
        rows = self._rows
        suites = [Text(clean(row.suite)) if row.suite is not None else Text("all", "bold") for row in rows]
        columns: dict[str, Sequence[Text]] = {"suite": suites}
        columns["length"] = [Text(length_text(row.length) if row.suite is not None else "") for row in rows]
        columns["samples"] = [Text(f"{row.samples:,}") for row in rows]
        columns["score"] = [_estimate(row.score, "bold") for row in rows]
        columns["all right"] = [_estimate(row.right) for row in rows]
        if self._epochs > 1:
            columns[f"pass^{self._epochs}"] = [_pass(row, self._epochs) for row in rows]
        columns |= endings
        columns["tokens"] = [Text(f"{(row.tokens_in + row.tokens_out) / row.tries:,.0f}") for row in rows]
        columns["cost"] = [_cost(row) for row in rows]
        columns["time"] = [Text(duration(row.seconds / row.tries)) for row in rows]
        return columns

    def _counted(self) -> dict[str, Sequence[Text]]:
        """Return one column for each ending, for where a single column with words does not fit."""
        columns: dict[str, Sequence[Text]] = {}
        for ending in (name for name in _ENDINGS if any(row.endings.get(name) for row in self._rows)):
            style = STYLES[ending.lower()].removeprefix("bold ")
            columns[ending.lower()] = [Text(f"{row.endings.get(ending, 0):,}", style) for row in self._rows]
        if any(row.too_long for row in self._rows):
            columns["too long"] = [Text(f"{row.too_long:,}", "dim") for row in self._rows]
        return columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield table_of(self.columns(options.max_width), left=("suite", "endings"))


class _Note:
    """The legend of the columns that are shown."""

    def __init__(self, scores: _Scores) -> None:
        self._scores = scores

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._scores.columns(options.max_width)
        *others, last = [name for name in ("tokens", "cost", "time") if name in shown] or [""]
        names = f"{', '.join(others)} and {last}" if others else last
        means = f" {names.capitalize()} {'are means' if others else 'is the mean'} of a run." if names else ""
        yield Text(f"± is one standard error, over samples.{means}", "dim")


def _pass(row: GroupSummary, k: int) -> Text:
    return _estimate(row.passes[k]) if k in row.passes else Text(_NONE, "dim")


def _cost(row: GroupSummary) -> Text:
    return Text(_NONE, "dim") if row.cost_usd is None else Text(dollars(row.cost_usd / row.tries))


def _estimate(estimate: Estimate, style: str = "") -> Text:
    error = f" ±{estimate.error:.3f}" if estimate.error is not None else "       "
    return Text(f"{estimate.mean:.3f}", style).append(error, "dim not bold")


def _endings(row: GroupSummary) -> Text:
    parts = Text("")
    for name in _ENDINGS:
        if row.endings.get(name):
            parts.append(" · " if parts else "", "dim")
            parts.append(f"{row.endings[name]:,} {name.lower()}", STYLES[name.lower()].removeprefix("bold "))
    if row.too_long:
        parts.append(f" ({row.too_long:,} too long)", "dim")
    return parts


def _facts(group: GroupSummary, summary: EvalSummary, header: Mapping[str, Any]) -> RenderableType:
    cost = "unknown" if group.cost_usd is None else dollars(group.cost_usd)
    if group.cost_usd is not None and group.unpriced_calls:
        cost += f" (not counting {count(group.unpriced_calls, 'call')})"
    tries = f"{group.tries:,} of {summary.total:,}" + (f", {header['epochs']} epochs" if header["epochs"] > 1 else "")
    passes = (
        ", ".join(f"k={k} {passed.mean:.3f}" for k, passed in group.passes.items()) if len(group.passes) > 1 else None
    )
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
        ("errors", Text(f"{count(errors, 'run')} ended by an error; they score 0", "red") if errors else None),
        *(("", Text(f"{times:,} x {one_line(error, _ERROR)}", "dim")) for error, times in group.common_errors.items()),
        ("used", Text(used)),
        ("cost", Text(f"{cost}, in {duration(group.seconds)} of runs")),
        ("", Text(f"{dollars(summary.spent_usd or 0)} with runs that were tried again") if more else None),
    ]
    return facts_table(rows)


# Logs --------------------------------------------------------------------------------------------------------------


def logs_table(logs: Sequence[EvalLog]) -> Table:
    """Return a table of evaluation logs."""
    from ...evals.summary import summarize

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("log", overflow="fold")
    table.add_column("model", overflow="ellipsis", no_wrap=True)
    for name in ("length", "done", "score", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for log in logs:
        group = summarize(log).all
        lengths = ",".join(dict.fromkeys(length_text(entry.length) for entry in log.entries))
        cost = _NONE if group is None or group.cost_usd is None else dollars(group.cost_usd)
        score = Text(_NONE, "dim") if group is None else _estimate(group.score, "bold")
        model = Text(one_line(str(log.header["models"]["main"]), 40))
        table.add_row(
            Text(clean(log.name)), model, lengths or _NONE, f"{len(log.entries):,} of {log.total:,}", score, cost
        )
    return table
