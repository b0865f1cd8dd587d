"""Views of a run without a terminal: a line for each important event, or nothing; and the choice of a view."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from ...events import (
    ApprovalAnswered,
    ApprovalRequested,
    CellEnded,
    EscalationAnswered,
    Event,
    ExtractionAttempted,
    FilesHashed,
    HistoryAppended,
    ItemsAnswered,
    MapStarted,
    ModeChosen,
    ModelWaiting,
    OperatorAwaited,
    PlanAnswered,
    PlanEscalated,
    PlanRejected,
    PlansCompared,
    PlanSelected,
    RunEnded,
    RunStarted,
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
    lead_nowhere,
    models_text,
    one_line,
    script_notice,
    signature_text,
)
from ..pages.approvals import approval_line
from ..pages.plans import plan_lines
from .state import Iteration, RunState


class View:
    """The view of a run. This one shows nothing."""

    def start(self, task: Task, *, announce: bool = True) -> None:
        """Show the task, unless it was announced before; called before the run."""

    def observe(self, event: Event) -> None:
        """Show an event; called from any thread."""

    def say(self, text: str) -> None:
        """Show a message, whatever else is shown."""
        print(clean(text), file=sys.stderr, flush=True)  # noqa: T201

    def paused(self) -> AbstractContextManager[None]:
        """Leave the terminal alone for as long as somebody is asked there."""
        return nullcontext()

    def stop(self) -> None:
        """End the view; called after the run, however it ended."""


class LineView(View):
    """Writes lines to a stream."""

    def __init__(self, stream: TextIO, state: RunState | None = None) -> None:
        self.stream, self.state = stream, state or RunState()

    def start(self, task: Task, *, announce: bool = True) -> None:
        """Write what is about to run."""
        self.state.limits = task.trigger
        if not announce:
            return
        self._write(f"task    {signature_text(task)}", f"inputs  {inputs_text(task)}", f"model   {models_text(task)}")
        notice = script_notice(task)
        if notice:
            self._write(notice)

    def observe(self, event: Event) -> None:
        """Write a line for an event, if it is important."""
        with self.state.lock:
            if self.state.take(event):
                line = self._line(event)
                if line:
                    self._write(f"{duration(self.state.seconds()):>7}  {line}")

    def say(self, text: str) -> None:
        """Write a message."""
        with self.state.lock:
            self._write(text)

    def _line(self, event: Event) -> str:
        state = self.state
        match event:
            case RunStarted():
                return f"run {state.run_id}"
            case CellEnded():
                return iteration_text(state.iterations[-1])
            case HistoryAppended() if not state.in_cell:
                return iteration_text(state.iterations[-1])
            case ModelWaiting():
                return f"waiting {duration(event.seconds)} for {event.model}: {event.reason}"
            case ModeChosen():
                return f"mode {event.mode}: {one_line(event.why, 160)}"
            case MapStarted():
                return map_text(event)
            case ItemsAnswered() if event.done == event.total or event.done * 5 // event.total > state.fifths:
                state.fifths = event.done * 5 // event.total
                return f"items {event.done:,} of {event.total:,}"
            case FilesHashed() if event.different:
                return f"files are not those of the recorded run: {one_line('; '.join(event.different), 300)}"
            case TriggerFired():
                return f"{state.reason}: extracting"
            case ExtractionAttempted():
                number, problems = state.attempts[-1]
                return f"extraction, attempt {number}" + (f": {one_line('; '.join(problems), 160)}" if problems else "")
            case RunEnded():
                return event.ending
            case (
                PlansCompared()
                | PlanSelected()
                | PlanRejected()
                | PlanEscalated()
                | OperatorAwaited()
                | EscalationAnswered()
                | PlanAnswered()
            ):
                return plan_lines(event)
            case ApprovalRequested() | ApprovalAnswered():
                return approval_line(event)
        return ""

    def _write(self, *lines: str) -> None:
        try:
            self.stream.write("".join(clean(line) + "\n" for line in lines))
            self.stream.flush()
        except OSError:  # the reader has gone; the run continues
            lead_nowhere(self.stream.fileno())


def map_text(event: MapStarted) -> str:
    """Return what a map is about to ask, and about what that takes."""
    cost = "" if event.cost_usd is None else f", {dollars(event.cost_usd)}"
    calls = f"{count(event.items, 'item')} in {count(event.model_calls, 'call')}, about {event.tokens:,} tokens{cost}"
    return f"map     {one_line(event.question, 80)} {calls}"


def iteration_text(iteration: Iteration) -> str:
    """Return a finished iteration as one line."""
    state = "ok" if iteration.success else "failed"
    return f"iteration {iteration.number} {state} ({facts_of(iteration)}) {last_line(iteration.output)}"


def choose_view(quiet: bool) -> View:
    """Return the view that suits standard error."""
    if quiet:
        return View()
    if not sys.stderr.isatty():
        return LineView(sys.stderr)
    from rich.console import Console

    from .live import LiveView

    console = Console(stderr=True)
    return LineView(sys.stderr) if console.is_dumb_terminal else LiveView(console)
