"""How long a run takes to open in the page: `python benchmarks/traces_page.py [--quick]`.

Needs chromium and playwright. Measured in the browser, from the navigation to the first frame after the run is there:
its answer, budgets, timeline, steps, and the first iteration with code and output. Each time is in a new profile:
nothing is cached.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rlm.events import Event
from rlm.traces import TraceWriter
from rlm.viewer.server import make_server

TARGET_S = 1.0
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]

_OPENED = """() => new Promise(done => {
    const look = () => performance.getEntriesByName("rlm-open").length
        ? requestAnimationFrame(() => setTimeout(() => done({
            open: performance.getEntriesByName("rlm-open")[0].startTime, seen: performance.now(),
            nodes: document.querySelectorAll("*").length,
            bytes: performance.getEntriesByType("resource").reduce((sum, one) => sum + one.transferSize, 0) }), 0))
        : setTimeout(look, 4);
    look(); })"""


def story(run: str, iterations: int, calls: int) -> Iterator[Event]:
    """A run with so many iterations, each with so many calls: 8 + 4 * calls events an iteration."""
    ticks, asks = itertools.count(), itertools.count(1)
    begin = time.time() - 100_000

    def event(kind: str, **data: Any) -> Event:
        return event(kind, run, data, begin + next(ticks) * 0.05)

    yield event("run_started", signature={"name": "Story"}, inputs={"doc": "a text"}, models={"main": "a/model"})
    for number in range(1, iterations + 1):
        printed, code = f"{number}: accepted order\n" * 60, f"part = doc[{number}:]\nprint(part)\n" * 10
        used = {"tokens_in": 900, "tokens_out": 80, "cost_usd": 0.002, "seconds": 0.05, "truncated": False}
        asked = {"role": "main", "iteration": number, "call": None, "kept": 2 * number, "model": "a/model"}
        ask = next(asks)
        yield event("iteration_started", iteration=number)
        yield event("model_asked", id=ask, **asked, system="You work in a REPL. " * 100, turns=[["user", printed]])
        yield event("model_answered", id=ask, role="main", iteration=number, text=code, **used)
        yield event("cell_started", iteration=number, code=code)
        for _ in range(calls):
            ask = next(asks)
            about = {"id": ask, "name": "llm_query", "iteration": number}
            question = f"What is in part {ask} of the text? " * 10
            yield event("call_started", **about, arguments=question, preview=question[:150])
            yield event("model_asked", id=ask, **{**asked, "role": "sub", "call": ask}, turns=[["user", question]])
            yield event("model_answered", id=ask, role="sub", iteration=number, text="An order.", **used)
            yield event("call_ended", **about, seconds=0.05, error=None, answer='"An order."')
        yield event("cell_ended", iteration=number, output=printed, success=True, seconds=0.2, error=None, limit=None)
        added = {f"part_{number}": {"type": "str", "size": 900, "preview": printed[:100]}}
        yield event("variables", iteration=number, added=added, changed={}, removed=[])
        yield event("history", iteration=number, reasoning=f"I look at part {number}. " * 5, told=printed)
        yield event("budget", iterations=number, max_iterations=5_000, llm_calls=number * calls, max_llm_calls=50_000)
    yield event("run_ended", ending="Submitted", confidence=1.0, reason=None, result={"outputs": {"answer": "orders"}})


def opened(browser: Any, address: str) -> dict[str, float]:
    """One look at a page, in a profile that knows nothing."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    found = page.evaluate(_OPENED)
    context.close()
    return dict(found)


def main() -> int:
    """Record the runs, open each several times, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    console = Console(width=120, highlight=False)
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        console.print("no browser: install chromium")
        return 1
    home = Path(tempfile.mkdtemp(prefix="rlm-bench-"))
    shapes = (("a" * 12, 10, 23), ("b" * 12, 20, 373), ("c" * 12, 1_000, 5), ("d" * 12, 3_750, 0))
    counts = {}
    with TraceWriter(home) as writer:
        for run, iterations, calls in shapes:
            events = list(story(run, iterations, calls))
            counts[run] = len(events)
            for event in events:
                writer(event)
        assert writer.flush(600), writer.problem
    server = make_server(home)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    table = Table(title="a run opens in the page, in the browser", box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("events", "iterations", "calls each", "median", "worst", "DOM nodes", "received"):
        table.add_column(name, justify="right")
    slowest = 0.0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for run, iterations, calls in shapes:
            found = [opened(browser, f"{server.address}#/run/{run}") for _ in range(3 if options.quick else 9)]
            seen = sorted(one["seen"] / 1000 for one in found)
            median = statistics.median(seen)
            slowest = max(slowest, median)
            figures = (f"{median * 1000:,.0f} ms", f"{seen[-1] * 1000:,.0f} ms")
            table.add_row(
                f"{counts[run]:,}",
                f"{iterations:,}",
                f"{calls:,}",
                *figures,
                f"{found[0]['nodes']:,.0f}",
                f"{found[0]['bytes'] / 1e6:.1f} MB",
            )
        version = browser.version
        browser.close()
    server.stop()
    thread.join(10)
    shutil.rmtree(home)
    console.print(table)
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, chromium {version}, load {os.getloadavg()[0]:.1f}")
    passed = slowest < TARGET_S
    console.print(
        f"{'pass' if passed else 'FAIL'}  30,000 events open in under {TARGET_S:.0f} s: {slowest:.2f} s (median)"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
