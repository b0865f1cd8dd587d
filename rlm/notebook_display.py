"""Runs and results in notebooks: a result as a table, and the progress of a run in a line that its end removes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
from .result_html import COLOURS, result_html, table_html, text_html
from .text import count

if TYPE_CHECKING:
    from .run import Run

_ITERATIONS = 3
_SECONDS_BETWEEN = 0.5
_active = threading.Lock()


def run_html(run: Run[Any]) -> str:
    """Return a run as HTML: its result, or how far it is."""
    if run.done:
        return result_html(run.partial_result())
    partial = run.partial_result()
    state = f"<b style='color:{COLOURS['running']}'>Running</b>, {count(len(partial.history), 'iteration')} so far"
    rows = [(f"iteration {entry.iteration}", text_html(entry.output)) for entry in partial.history[-_ITERATIONS:]]
    return f"<div>{state}{table_html(rows)}<small>run {text_html(run.id)}</small></div>"


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
        return f"<small>run {text_html(self._run)} · {iteration} · {seconds:.0f} s · {text_html(self._phase)}</small>"
