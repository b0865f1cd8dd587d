"""The printed form of a run of `runtime.py`."""

from __future__ import annotations

import statistics

from loops import BY_KEY, LOOPS
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from runtime_results import BATCH, IDEAL_S, SINGLE, RuntimeResults, against_own
from transports import CLIENTS


def print_results(results: RuntimeResults) -> None:
    console = Console(width=156, highlight=False)
    console.print(f"[bold]{escape(results.heading)}[/bold]")
    makers = {"five": _five, "batch": _batch, "tokens": _tokens, "at_once": _at_once}
    for part, load in results.load.items():
        console.print(makers[part](results))
        console.print(f"(load average of the machine: {load:.1f})\n")
    for part, failures in results.failures.items():
        for key, reason in failures.items():
            console.print(f"[red]{escape(part)}[/red], {escape(BY_KEY[key].label)}: {escape(reason)}", soft_wrap=True)
    words = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: "[yellow]----[/yellow]"}
    for verdict in results.verdicts():
        console.print(f"{words[verdict.passed]}  {escape(verdict.target)}: {escape(verdict.found)}", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _five(results: RuntimeResults) -> Table:
    table = _table("five iterations, model of zero latency", "median, ms", "minimum, ms", "times ours")
    table.add_column("between the code and the host")
    ours = results.five.get("ours")
    for entry in LOOPS:
        label = f"{entry.label} {results.versions.get(entry.key, '')}".strip()
        samples = results.five.get(entry.key)
        if not samples:
            table.add_row(label, "failed", "", "", entry.boundary)
            continue
        median = statistics.median(samples)
        ratio = f"{median / statistics.median(ours):.1f}x" if ours else "-"
        table.add_row(label, f"{median * 1e3:.1f}", f"{min(samples) * 1e3:.1f}", ratio, entry.boundary)
    return table


_TRANSPORTS = {
    "own": "the client in rlm.models",
    "dspy": "dspy's transport",
    "aiohttp": "aiohttp",
    "httpx": "httpx",
    "streams": "asyncio streams, no client",
}
_BATCHES = {
    "batch own": "ours, llm_batch in a run",
    **{f"batch {name}": f"  over {_TRANSPORTS[name]}" for name in CLIENTS if name != "own"},
    **{f"bare_batch {name}": f"alone: {label}" for name, label in _TRANSPORTS.items()},
    "dspy_batch": "dspy.RLM, llm_query_batched (8 at a time)",
}


def _batch(results: RuntimeResults) -> Table:
    title = (
        f"1,000 prompts, 100 at a time, 50 ms each: {IDEAL_S:g} s at best; most at once: {results.server.get('most')}"
    )
    table = _table(
        title,
        *("median, s", "minimum, s", "over the ideal", "processor, s", "µs a call\n(minimum)", "than ours"),
        *("one at a time,\nµs a call", "than ours"),
    )
    for name, label in _BATCHES.items():
        found = results.batch.get(name)
        if not found:
            continue
        seconds, cpu = [one["seconds"] for one in found], [one["cpu"] for one in found]
        median = statistics.median(seconds)
        table.add_row(
            label,
            f"{median:.2f}",
            f"{min(seconds):.2f}",
            f"{median / IDEAL_S - 1:+.0%}",
            f"{statistics.median(cpu):.2f}",
            f"{statistics.median(cpu) / BATCH * 1e6:,.0f} ({min(cpu) / BATCH * 1e6:,.0f})",
            _times(against_own(results.batch, name)),
            *_single(results.single, name),
        )
    return table


def _single(single: dict[str, list[dict[str, float]]], name: str) -> tuple[str, str]:
    if name not in single:
        return "", ""
    cpu = statistics.median(one["cpu"] for one in single[name])
    return f"{cpu / SINGLE * 1e6:,.0f}", _times(against_own(single, name))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"


def _tokens(results: RuntimeResults) -> Table:
    table = _table(
        "what 20 iterations send, each printing about 1,500 characters",
        "requests",
        "characters",
        "tokens (chars/4)",
        "first request",
        "last request",
        "of a request,\nbegins the next",
        "characters that\nno cache knows",
    )
    for key, one in results.tokens.items():
        table.add_row(
            BY_KEY[key].label,
            f"{one['requests']}",
            f"{one['sent']:,}",
            f"{one['sent'] / 4:,.0f}",
            f"{one['first']:,}",
            f"{one['last']:,}",
            f"{one['kept']:.1%}",
            f"{one['sent'] - one['known']:,}",
        )
    return table


def _at_once(results: RuntimeResults) -> Table:
    table = _table("200 runs at once, two iterations and one llm_query each", "timed", "held while all are alive")
    timed, held = results.at_once.get("timed", {}), results.at_once.get("held", {})

    def row(label: str, key: str, scale: float, unit: str, digits: int = 0) -> None:
        cells = [f"{one[key] * scale:,.{digits}f}{unit}" if key in one else "-" for one in (timed, held)]
        table.add_row(label, *cells)

    row("total", "seconds", 1, " s", 2)
    row("peak memory of the host (RSS)", "peak_rss", 1e-6, " MB")
    row("host (PSS)", "host_pss", 1e-6, " MB")
    row("kernels, pool and zygote (PSS)", "kernels_pss", 1e-6, " MB")
    row("their processes", "processes", 1, "")
    row("descriptors of the host", "descriptors", 1, "")
    row("descriptor limit", "descriptor_limit", 1, "")
    row("threads of the host", "threads", 1, "")
    endings = [", ".join(f"{n} {name}" for name, n in one.get("endings", {}).items()) for one in (timed, held)]
    table.add_row("endings", *endings)
    return table
