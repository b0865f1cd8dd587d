"""The live view of a run on a terminal: the code, the calls in flight, and the budget."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ...events import (
    CellEnded,
    Event,
    ExtractionAttempted,
    HistoryAppended,
    MapStarted,
    ModeChosen,
    TriggerFired,
)
from ...tasks import Task
from ..console import (
    clean,
    count,
    dollars,
    duration,
    facts_of,
    inputs_text,
    last_line,
    models_text,
    one_line,
    script_notice,
    signature_text,
)
from ..pages.approvals import approval_line
from ..pages.plans import plan_lines
from ..pages.tables import facts_table
from .lines import View, map_text
from .state import Call, Iteration, RunState

_PHASES = {
    "starting": "starting a kernel",
    "asking": "asking the model",
    "reading": "reading its reply",
    "running": "running the code",
    "thinking": "done",
    "extracting": "extracting the outputs",
    "escalated": "all plans were rejected",
    "ended": "done",
}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PER_SECOND = 8
_CALLS = 5
_BAR = 8
_ECHO = 4
"""Columns that stay free behind the last line: a ^C that the terminal echoes there must not start another line."""


class LiveView(View):
    """Draws a run while it runs. Finished iterations stay above as one line each."""

    def __init__(self, console: Console, state: RunState | None = None) -> None:
        self.console, self.state = console, state or RunState()
        self._live = Live(
            _Frame(self.state), console=console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )
        # One thread draws or prints at a time: each erases as many lines as were drawn last.
        self._drawing = threading.Lock()
        self._over = threading.Event()
        self._paused = False
        self._painter = threading.Thread(target=self._paint, daemon=True, name="rlm-live")

    def start(self, task: Task, *, announce: bool = True) -> None:
        """Print what is about to run, and begin to draw."""
        self.state.limits = task.trigger
        if announce:
            self.console.print(header(task))
        self._live.start()
        self._painter.start()

    def observe(self, event: Event) -> None:
        """Update the state, and print a line for an event that stays."""
        with self.state.lock:
            line = self._line(event) if self.state.take(event) else None
        # Outside of the lock: printing waits for the picture, and drawing the picture waits for the lock.
        if line is not None:
            with self._drawing:
                self.console.print(line)

    def say(self, text: str) -> None:
        """Print a message above the picture."""
        with self._drawing:
            self.console.print(Text(clean(text), "yellow"))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the picture, and draw it again afterwards. Lines are printed meanwhile."""
        with self._drawing:
            self._paused = True
            self._live.stop()
        try:
            yield
        finally:
            with self._drawing:
                self._paused = False
                if not self._over.is_set():
                    self._live.start()

    def _paint(self) -> None:
        while not self._over.wait(1 / _PER_SECOND):
            with self._drawing:
                if not self._paused:
                    self._live.refresh()

    def _line(self, event: Event) -> Text | None:
        """Return the line of an event that stays on the terminal, if it has one."""
        width = self.console.width
        match event:
            case CellEnded():
                return iteration_line(self.state.iterations[-1], width)
            case HistoryAppended() if not self.state.in_cell:
                return iteration_line(self.state.iterations[-1], width)
            case ModeChosen():
                return Text(f"· mode {event.mode}: {one_line(event.why, width - 20)}", "cyan")
            case MapStarted():
                return Text(f"· {one_line(map_text(event), width - 4)}", "cyan")
            case TriggerFired():
                return Text(f"! {clean(self.state.reason)}: extracting", "yellow")
            case ExtractionAttempted() if self.state.attempts[-1][1]:
                number, problems = self.state.attempts[-1]
                return Text(f"✗ extraction {number}: {one_line('; '.join(problems), width - 20)}", "red")
        lines = plan_lines(event) or approval_line(event)
        return Text(lines, "magenta") if lines else None

    def stop(self) -> None:
        """Erase the picture; printed lines stay."""
        self._over.set()
        if self._painter.is_alive():
            self._painter.join()
        self._live.stop()


class _Frame:
    """The picture of a state, drawn each time it is rendered."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield frame(self.state, options.max_width, console.height)


def header(task: Task) -> RenderableType:
    """Return what is about to run."""
    texts = {"task": signature_text(task), "inputs": inputs_text(task), "model": models_text(task)}
    lines = facts_table((name, Text(clean(text))) for name, text in texts.items())
    notice = script_notice(task)
    return Group(lines, *([Text(notice, "yellow")] if notice else []), Text(""))


def iteration_line(iteration: Iteration, width: int) -> Text:
    """Return a finished iteration as one line."""
    line = Text.assemble(("✓", "green") if iteration.success else ("✗", "red"))
    line.append(f" {iteration.number:>2}  ", "bold")
    line.append(f"{facts_of(iteration):<28}", "dim")
    output = "SUBMIT" if iteration.submitted else last_line(iteration.output, max(20, width - 40))
    line.append(" " + output, "" if iteration.success else "red")
    line.truncate(width, overflow="ellipsis")
    return line


def frame(state: RunState, width: int, height: int) -> RenderableType:
    """Return the moving part of the view."""
    with state.lock:
        shown = list(state.calls.items())[: max(1, min(_CALLS, height - 12))]
        calls, gauges = _calls(state, shown, width), _gauges(state, width)
        room = max(3, min(24, height - len(shown) - 9))
        return Group(_code(state, width, room), *_wait(state), *calls, gauges)


def _wait(state: RunState) -> list[RenderableType]:
    """Return who is waited for, why and for how long, on a line of its own: the title of the code is soon full."""
    waiting = state.current_wait()
    if waiting is None:
        return []
    left = duration(waiting.until - state.clock())
    return [Text(f" waiting {left} for {clean(waiting.model)}: {clean(waiting.reason)}", "yellow")]


def _code(state: RunState, width: int, room: int) -> RenderableType:
    spin = _SPINNER[int(state.clock() * 8) % len(_SPINNER)]
    title = Text(f" {spin} ", "cyan")
    if state.iteration:
        title.append(f"iteration {state.iteration} · ", "bold")
    title.append(f"{_PHASES.get(state.phase, state.phase)}, {duration(state.seconds_in_phase())} ")
    lines = clean(state.code).splitlines()
    hidden = max(0, len(lines) - room)
    shown = "\n".join(line[: max(10, width - 4)] for line in lines[:room])
    style = "cyan" if state.phase == "running" else "dim"
    body: RenderableType = Syntax(shown, "python", theme="ansi_dark", background_color="default") if shown else Text("")
    note = Text(f" {count(hidden, 'more line')} ", "dim") if hidden else None
    return Panel(body, title=title, title_align="left", border_style=style, subtitle=note, subtitle_align="right")


def _calls(state: RunState, shown: list[tuple[Any, Call]], width: int) -> list[RenderableType]:
    if not shown:
        return []
    asked = Counter(state.model_calls.values())
    grid = Table.grid(padding=(0, 1))
    for style in ("magenta", "dim", ""):
        grid.add_column(no_wrap=True, style=style)
    for number, call in shown:
        name = f"{call.name}, {asked[number]:,} in flight" if asked[number] > 1 else call.name
        if call.name == "llm_map" and state.items[1]:
            name = f"{call.name}, {state.items[0]:,} of {state.items[1]:,} items"
        taken = duration(state.clock() - call.since)
        grid.add_row(f" ⇄ {clean(name)}", f"{taken:>6}", Text(one_line(call.preview, max(10, width - len(name) - 16))))
    if len(state.calls) > len(shown):
        grid.add_row(f"   and {len(state.calls) - len(shown):,} more", "", "")
    return [grid]


def _gauges(state: RunState, width: int) -> RenderableType:
    """Return the usage of each limit, with bars if there is room for them."""
    limits, usage = state.limits, state.usage
    cells: list[RenderableType] = []
    plain: list[str] = []
    for name, used, limit, text in (
        ("iterations", state.iteration, limits.max_iterations, "{:,}".format),
        ("calls", usage.llm_calls, limits.max_llm_calls, "{:,}".format),
        ("time", state.seconds(), limits.max_duration, duration),
        ("tokens", usage.tokens, limits.max_tokens, "{:,}".format),
        ("cost", usage.cost_usd or 0.0, limits.max_cost_usd, dollars),
    ):
        if not limit or not math.isfinite(limit):
            continue
        spelled = f"{text(used)}/{text(limit)}"
        cells += [Text(f" {name}", "dim"), _bar(used, limit), Text(spelled)]
        plain.append(f"{name} {spelled}")
    tokens, cost = usage.tokens, usage.cost_usd
    rest = [f"{tokens:,} tokens"] if tokens and not limits.max_tokens else []
    rest += [dollars(cost)] if cost is not None and not limits.max_cost_usd else []
    end = "  " + " · ".join(rest)
    if sum(len(part) + _BAR + 3 for part in plain) + len(end) > width - _ECHO:
        return Text(_filled(plain + rest, width - _ECHO), no_wrap=True, overflow="ellipsis")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(*cells, Text(end))
    return grid


def _filled(parts: list[str], width: int) -> str:
    """Return the parts in as few lines as they need."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(f" {part}")
    return "\n".join(lines)


def _bar(used: float, limit: float) -> ProgressBar:
    share = used / limit
    style = "green" if share < 0.6 else "yellow" if share < 0.85 else "red"
    return ProgressBar(limit, min(used, limit), width=_BAR, complete_style=style, finished_style="red")
