"""Evaluations for people, in a terminal: a summary, two logs compared, a list of logs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .recorded import STYLES, about
from .words import clean, count, duration, money, one_line

if TYPE_CHECKING:
    from ..evals.comparing import Comparison, Difference, Pair
    from ..evals.log import EvalLog
    from ..evals.summary import Estimate, Summary
    from ..evals.summary import Group as Entries

_CHANGED = 10
_NONE = "-"
_SETTING = 60
_ERROR = 200
_FEW = 10


def show(page: RenderableType, output: Any = None) -> None:
    """Print a page, without spaces at the ends of lines."""
    target = output if output is not None else sys.stdout
    console = Console(file=target, highlight=False)
    if not console.is_terminal:
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
    parts: list[RenderableType] = [Rule(title, align="left", style="dim"), _Scores(rows), Text("")]
    parts.append(_facts(summary.all, summary.total, header))
    return Group(*parts, *_tiers(summary.all))


def _tiers(group: Entries) -> list[RenderableType]:
    """Which tier answered typed questions, and what to do about it."""
    from ..adapters.metrics import summary_of

    if not group.tiers:
        return []
    return [Text(""), Rule(Text("Typed answers"), align="left", style="dim"), Text(clean(summary_of(group.tiers)))]


class _Scores:
    """The groups of a summary as a table. A narrow terminal gets fewer columns."""

    def __init__(self, rows: Sequence[Entries]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= 100
        epochs = max(max(row.passes, default=1) for row in self._rows)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("suite", no_wrap=True)
        passes = [f"pass^{epochs}"] if epochs > 1 else []
        for name in ("length", "samples", "score", *(["all right"] if wide else []), *passes):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("endings")
        for name in ("tokens", "cost", "time") if wide else ("cost", "time"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self._rows:
            table.add_row(*_score_row(row, epochs, wide))
        yield table


def _score_row(row: Entries, epochs: int, wide: bool) -> list[RenderableType]:
    cells: list[RenderableType] = [Text(clean(row.suite)) if row.suite is not None else Text("all", "bold")]
    cells += [length_text(row.length) if row.suite is not None else "", f"{row.samples:,}"]
    cells += [_estimate(row.score, "bold"), *([_estimate(row.right)] if wide else [])]
    if epochs > 1:
        cells.append(_estimate(row.passes[epochs]) if epochs in row.passes else Text(_NONE, "dim"))
    cells += [_endings(row), *([f"{(row.tokens_in + row.tokens_out) / row.tries:,.0f}"] if wide else [])]
    cells.append(Text(_NONE, "dim") if row.cost_usd is None else money(row.cost_usd / row.tries))
    return [*cells, duration(row.seconds / row.tries)]


def _estimate(one: Estimate, style: str = "") -> Text:
    made = Text(f"{one.mean:.3f}", style)
    return made.append(f" ±{one.error:.3f}" if one.error is not None else "       ", "dim not bold")


def _endings(row: Entries) -> Text:
    parts = Text("")
    for name in ("Submitted", "Extracted", "Failed"):
        if row.endings.get(name):
            parts.append(" · " if parts else "", "dim")
            parts.append(f"{row.endings[name]:,} {name.lower()}", STYLES[name.lower()].removeprefix("bold "))
    if row.too_long:
        parts.append(f" ({row.too_long:,} too long)", "dim")
    return parts


def _facts(group: Entries, total: int, header: Mapping[str, Any]) -> RenderableType:
    cost = "unknown" if group.cost_usd is None else money(group.cost_usd)
    if group.cost_usd is not None and group.unpriced_calls:
        cost += f" (not counting {count(group.unpriced_calls, 'call')})"
    tries = f"{group.tries:,} of {total:,}" + (f", {header['epochs']} epochs" if header["epochs"] > 1 else "")
    passes = ", ".join(f"k={k} {one.mean:.3f}" for k, one in group.passes.items()) if len(group.passes) > 1 else None
    fields = ", ".join(f"{clean(name)} {mean:.3f}" for name, mean in group.fields.items())
    errors = group.errors - group.too_long
    calls = count(group.llm_calls, "LLM call")
    used = f"{group.tokens_in:,} tokens read, {group.tokens_out:,} written; {calls} from the code"
    too_long = Text(f"{count(group.too_long, 'input')} did not fit; they score 0", "yellow")
    rows: list[tuple[str, RenderableType | None]] = [
        ("runs", Text(tries)),
        ("outputs", Text(fields) if len(group.fields) > 1 else None),
        ("pass^k", Text(passes) if passes else None),
        ("too long", too_long if group.too_long else None),
        ("errors", Text(f"{count(errors, 'run')} broke off; they score 0", "red") if errors else None),
        *(("", Text(f"{times:,} x {one_line(said, _ERROR)}", "dim")) for said, times in group.said.items()),
        ("used", Text(used)),
        ("cost", Text(f"{cost}, in {duration(group.seconds)} of runs")),
        ("", Text("± is one standard error, over samples. Tokens, cost and time are means of a run.", "dim")),
    ]
    return about(rows)


# Two logs ----------------------------------------------------------------------------------------------------------


def comparison_page(found: Comparison, resamples: int) -> RenderableType:
    """How much better the second log is, and on which samples."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("suite", no_wrap=True)
    for name in ("length", "samples", "A", "B", "B - A", "95% interval", "B better"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in (*found.groups, *([found.all] if len(found.groups) != 1 else [])):
        table.add_row(*_difference(row))
    names = about([("A", Text(clean(found.first))), ("B", Text(clean(found.second)))])
    parts: list[RenderableType] = [names, *_settings(found), Text(""), table, Text("")]
    parts.append(Text(verdict(found.all), "bold"))
    for title, pairs, style in (("Better in B", found.better, "green"), ("Worse in B", found.worse, "red")):
        if pairs:
            parts += [Text(""), Rule(Text(f"{title}: {len(pairs):,}", style), align="left", style="dim"), _pairs(pairs)]
    left = [f"{many:,} only in {name}" for many, name in ((found.only_first, "A"), (found.only_second, "B")) if many]
    if left:
        parts += [Text(""), Text(f"Left out: {count_samples(found)}, {' and '.join(left)}.", "yellow")]
    parts += [Text(""), Text(f"Paired bootstrap over samples, {resamples:,} resamples.", "dim")]
    return Group(*parts)


def verdict(one: Difference) -> str:
    """The comparison in one sentence."""
    if one.low > 0 or one.high < 0:
        better, worse = ("B", "A") if one.difference > 0 else ("A", "B")
        said = f"{better} is better than {worse} by {abs(one.difference):.3f}: the interval does not reach 0."
        return said if one.samples >= _FEW else f"{said} With so few samples it is too narrow; run more."
    return "No difference is shown: the interval reaches 0."


def count_samples(found: Comparison) -> str:
    """How many samples are left out."""
    return count(found.only_first + found.only_second, "sample")


def _difference(row: Difference) -> list[RenderableType]:
    style = "green" if row.low > 0 else "red" if row.high < 0 else ""
    return [
        Text(clean(row.suite)) if row.suite is not None else Text("all", "bold"),
        length_text(row.length) if row.suite is not None or row.length is not None else "",
        f"{row.samples:,}",
        f"{row.first:.3f}",
        f"{row.second:.3f}",
        Text(f"{row.difference:+.3f}", f"bold {style}"),
        Text(f"{row.low:+.3f} to {row.high:+.3f}"),
        f"{row.better:.1%}",
    ]


def _settings(found: Comparison) -> list[RenderableType]:
    if not found.settings:
        return []
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("differs", "A", "B"):
        table.add_column(name, overflow="fold")
    for name, one, other in found.settings:
        table.add_row(clean(name), one_line(_said(one), _SETTING), one_line(_said(other), _SETTING))
    return [Text(""), table]


def _said(value: Any) -> str:
    return "none" if value is None or value == "" or value == {} else str(value)


def _pairs(pairs: Sequence[Pair]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    for pair in pairs[:_CHANGED]:
        runs = (f"run {clean(one.runs[0])}" if one.runs else "" for one in (pair.first, pair.second))
        scores = f"{pair.first.score:.3f} → {pair.second.score:.3f}"
        table.add_row(Text(clean(pair.sample_id)), scores, *(Text(one, "dim") for one in runs))
    if len(pairs) > _CHANGED:
        table.add_row(Text(f"and {len(pairs) - _CHANGED:,} more (--json has all)", "dim"))
    return table


# Logs --------------------------------------------------------------------------------------------------------------


def logs_table(logs: Sequence[EvalLog]) -> Table:
    """What has been run."""
    from ..evals.summary import summarize

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
