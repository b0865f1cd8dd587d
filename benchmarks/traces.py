"""What traces cost: `python benchmarks/traces.py [--quick] [--only PART]`.

Parts: the cost of one event; the size of the trace of 20 and 100 iterations over a 10 MB input, beside what rlms and
dspy keep of the same trajectory; a run with tracing and without; runs that are killed and taken up again.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from workers import ROOT, Stopped, Worker, shorten

KEEPERS = (
    ("ours", "ours, SQLite"),
    ("rlms", "rlms, JSONL of its logger"),
    ("dspy", "dspy.RLM, lm.history as JSON (no input in it)"),
    ("dspy-trajectory", "dspy.RLM, trajectory as JSON (no input, no prompts)"),
)
TARGET_TIMES_SMALLER = 20
TARGET_OVERHEAD = 0.02

Verdict = tuple[bool | None, str]


def event(console: Console, options: argparse.Namespace) -> list[Verdict]:
    """One event: for whoever tells it, and for the thread that writes it."""
    import events_load

    with tempfile.TemporaryDirectory(prefix="rlm-bench-") as home:
        found = events_load.measure(Path(home), 2_000 if options.quick else 20_000)
    table = _table(f"one event, of {found['events']:,} events of usual size", "µs")
    table.add_row("the caller: it is put on the queue (median)", f"{found['put_median'] * 1e6:.1f}")
    table.add_row("the caller: 99 of 100 events", f"{found['put_99'] * 1e6:.1f}")
    table.add_row("the writer's thread: processor time", f"{found['cpu'] * 1e6:.0f}")
    table.add_row("written one by one, each committed: time", f"{found['single'] * 1e6:.0f}")
    console.print(table)
    console.print(
        f"{found['bytes'] / found['events']:,.0f} bytes an event on disk; {found['text'] / found['events']:,.0f} told"
    )
    return []


def sizes(console: Console, options: argparse.Namespace) -> list[Verdict]:
    """What is left of the same trajectory on disk."""
    table = _table("trace of a run over a 10 MB input", "20 iterations", "100 iterations")
    found: dict[str, dict[int, int]] = {}
    reasons: dict[str, str] = {}
    for key, _ in KEEPERS[:3]:
        ours = key == "ours"
        python = Path(sys.executable) if ours else options.venv / "bin" / "python"
        if not python.exists():
            reasons[key] = f"{python} is missing; `make bench` creates it"
            continue
        worker = Worker(key, python, options.venv / "deno-cache", ours=ours, script="traces_worker.py")
        try:
            for iterations in (20, 100):
                answer = worker.ask(limit=600, do="size", iterations=iterations)
                if "error" in answer:
                    reasons[key] = shorten(answer["error"])
                    break
                for name, size in answer.items():
                    found.setdefault(name, {})[iterations] = size
        except Stopped as stopped:
            reasons[key] = shorten(str(stopped))
        finally:
            worker.kill()
    for key, label in KEEPERS:
        cells = [f"{found[key][count] / 1e6:,.2f} MB" if count in found.get(key, {}) else "-" for count in (20, 100)]
        table.add_row(label, *cells)
    console.print(table)
    for key, reason in reasons.items():
        console.print(f"[red]{escape(key)}[/red]: {escape(reason)}", soft_wrap=True)
    return [_smaller(found, count) for count in (20, 100)]


def _smaller(found: dict[str, dict[int, int]], count: int) -> Verdict:
    words = f"the trace of {count} iterations over 10 MB is at least {TARGET_TIMES_SMALLER}x smaller than rlms'"
    if count not in found.get("ours", {}) or count not in found.get("rlms", {}):
        return None, words
    times = found["rlms"][count] / found["ours"][count]
    return times >= TARGET_TIMES_SMALLER, f"{words}: {times:,.0f}x"


def overhead(console: Console, options: argparse.Namespace) -> list[Verdict]:
    """Twenty iterations with tracing and without, by turns, in pairs."""
    import traced_runs

    table = _table(
        "a run of 20 iterations: median (minimum)", "without, ms", "with, ms", "in pairs", "processor, ms", "with, ms"
    )
    verdicts: list[Verdict] = []
    cases = [("50 ms a reply, 10 MB", 0.05, 10), ("no latency, 0.5 MB", 0.0, 0.5), ("no latency, 10 MB", 0.0, 10)]
    for name, latency, megabytes in cases:
        rounds = (4 if latency else 10) if options.quick else (12 if latency else 40)
        pairs = traced_runs.measure(rounds, latency, megabytes)
        walls = [statistics.median(pair[side].seconds for pair in pairs) for side in (0, 1)]
        cpus = [statistics.median(pair[side].processor for pair in pairs) for side in (0, 1)]
        ratio = statistics.median(pair[1].seconds / pair[0].seconds for pair in pairs)
        least = [min(pair[side].seconds for pair in pairs) for side in (0, 1)]
        shown = [f"{wall * 1e3:.1f} ({low * 1e3:.1f})" for wall, low in zip(walls, least, strict=True)]
        shown += [f"{value * 1e3:.1f}" for value in cpus]
        table.add_row(name, shown[0], shown[1], f"{(ratio - 1) * 100:+.1f}%", shown[2], shown[3])
        said = f"tracing costs a run ({name}) at most {TARGET_OVERHEAD:.0%}: {(ratio - 1) * 100:+.1f}%"
        verdicts.append((ratio - 1 <= TARGET_OVERHEAD, said))
    console.print(table)
    return verdicts


def kills(console: Console, options: argparse.Namespace) -> list[Verdict]:
    """Runs that are killed at random moments, and go on from their traces."""
    import killed_runs

    count = 5 if options.quick else 50
    found = killed_runs.measure(count)
    well = [one for one in found if one.well]
    table = _table(f"{count} runs, each killed at a random moment and taken up again", "")
    table.add_row("ended well", f"{len(well)} of {count}")
    table.add_row("had ended before they were killed", str(sum(one.ended_before for one in found)))
    table.add_row("iterations on record, median", f"{statistics.median(one.iterations for one in found):.0f}")
    table.add_row("host calls made before the kill", str(sum(one.made for one in found)))
    table.add_row("of these made again, as their answers were not on record", str(sum(one.repeated for one in found)))
    console.print(table)
    for one in found:
        if not one.well:
            console.print(f"[red]seed {one.seed}[/red]: {escape(one.said)}", soft_wrap=True)
    return [(len(well) == count, f"resume after SIGKILL at {count} random moments: {len(well)} of {count} end well")]


PARTS: dict[str, Callable[[Console, argparse.Namespace], list[Verdict]]] = {
    "event": event,
    "sizes": sizes,
    "overhead": overhead,
    "kills": kills,
}


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part only")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-bench", help="the environment of the peers")
    options: Any = parser.parse_args()
    options.venv = options.venv.absolute()
    console = Console(width=140, highlight=False)
    version = platform.python_version()
    console.print(
        f"[bold]{platform.platform()}, {os.cpu_count()} cores, CPython {version}, {time.strftime('%Y-%m-%d')}[/]"
    )
    verdicts: list[Verdict] = []
    for name in options.only or PARTS:
        verdicts += PARTS[name](console, options)
        console.print(f"(load average of the machine: {os.getloadavg()[0]:.1f})\n")
    words = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: "[yellow]----[/yellow]"}
    for passed, said in verdicts:
        console.print(f"{words[passed]}  {escape(said)}", soft_wrap=True)


if __name__ == "__main__":
    main()
