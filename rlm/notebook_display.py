"""Runs and results in notebooks: a result as a table, and the progress of a run in a line that its end removes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from .events import (
    BudgetUsed,
    CellStarted,
    Event,
    IterationStarted,
    ModelWaiting,
    Observer,
    RunEnded,
    RunInterrupted,
    RunStarted,
    TriggerFired,
)
from .json_values import dump
from .text import clean, count, cut_middle

if TYPE_CHECKING:
    from .results import ExecutionResult
    from .run import Run

COLOURS = {
    "submitted": "#1a7f37",
    "extracted": "#9a6700",
    "failed": "#cf222e",
    "running": "#0969da",
    "unfinished": "#6e7781",
    "resumed": "#6e7781",
}
"""The color of each ending, in tables and charts."""

_CHARS = 2_000
_QUOTES = 3
_SECONDS_BETWEEN = 0.5
_active = threading.Lock()


def result_html(result: ExecutionResult[Any]) -> str:
    """Return a result as HTML. Outputs and reasons are untrusted text: every text is escaped."""
    from .results import Extracted, Failed

    confidence = f", confidence {result.confidence:.2f}" if isinstance(result, Extracted) else ""
    title = f"<b style='color:{COLOURS[result.status]}'>{result.status.capitalize()}</b>{confidence}"
    rows = [("reason", _text(result.reason))] if isinstance(result, Extracted | Failed) else []
    values = result.partial_outputs if isinstance(result, Failed) else to_jsonable_python(result.outputs, fallback=str)
    for name, value in (values if isinstance(values, dict) else {} if values is None else {"": values}).items():
        found = [one for one in result.evidence if one.field == name]
        quotes = "".join(f"<br><small>{_text(one.quote)}</small>" for one in found[:_QUOTES])
        rows.append((_text(name), f"{_text(value if isinstance(value, str) else dump(value))}{quotes}"))
    usage = result.usage
    facts = [count(result.iterations, "iteration"), f"{count(usage.llm_calls, 'LLM call')} from the code"]
    facts += [f"{usage.tokens:,} tokens"] if usage.tokens else []
    facts += [f"${usage.cost_usd:.4f}"] if usage.cost_usd is not None else []
    used = " · ".join([*facts, f"{usage.seconds:.1f} s", f"run {_text(result.run_id)}"])
    return f"<div>{title}{_table(rows)}<small>{used}</small></div>"


def run_html(run: Run[Any]) -> str:
    """Return a run as HTML: its result, or how far it is."""
    if run.done:
        return result_html(run.partial_result())
    partial = run.partial_result()
    state = f"<b style='color:{COLOURS['running']}'>Running</b>, {count(len(partial.history), 'iteration')} so far"
    rows = [(f"iteration {entry.iteration}", _text(entry.output)) for entry in partial.history[-_QUOTES:]]
    return f"<div>{state}{_table(rows)}<small>run {_text(run.id)}</small></div>"


def progress_observer() -> Observer | None:
    """Return an observer that shows the progress of a run in the notebook; None outside of one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import HTML, DisplayHandle

    handle = DisplayHandle()

    def publish(html: str, first: bool) -> None:
        (handle.display if first else handle.update)(HTML(html))

    return Progress(publish)


class Progress:
    """Shows one run at a time: of runs that start meanwhile, and of child runs, nothing is shown."""

    def __init__(self, publish: Callable[[str, bool], None]) -> None:
        """`publish` is called with HTML, and whether it is the first."""
        self._publish = publish
        self._run = ""
        self._limit = self._began = self._published = 0.0
        self._iteration = 0
        self._llm_calls = 0
        self._phase = "starting a kernel"

    def __call__(self, event: Event) -> None:
        """Show an event of the run."""
        if isinstance(event, RunStarted) and not self._run and _active.acquire(blocking=False):
            self._run, self._began = event.run_id, time.monotonic()
            self._limit = event.trigger.max_iterations
            self._publish(self._line(), True)
            return
        if not self._run or event.run_id != self._run:
            return
        match event:
            case RunEnded() | RunInterrupted():
                self._run = ""
                _active.release()
                self._publish("", False)
                return
            case IterationStarted(iteration=number):
                self._iteration, self._phase = number, "asking the model"
            case CellStarted():
                self._phase = "running the code"
            case TriggerFired(reason=reason):
                self._phase = f"{reason}: extracting"
            case ModelWaiting():
                self._phase = f"waiting {event.seconds:.0f} s for {event.model}: {event.reason}"
            case BudgetUsed(llm_calls=calls):
                self._llm_calls = calls
        if time.monotonic() - self._published > _SECONDS_BETWEEN:
            self._publish(self._line(), False)

    def _line(self) -> str:
        self._published = time.monotonic()
        calls = f" · {count(self._llm_calls, 'LLM call')}" if self._llm_calls else ""
        seconds = time.monotonic() - self._began
        iteration = f"iteration {self._iteration} of {self._limit:g}{calls}"
        return f"<small>run {_text(self._run)} · {iteration} · {seconds:.0f} s · {_text(self._phase)}</small>"


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{name}</th>"
        f"<td style='text-align:left;white-space:pre-wrap'>{value}</td></tr>"
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def _text(value: Any) -> str:
    return escape(clean(cut_middle(str(value), _CHARS)))
