"""The view of a run: what is shown of it while it runs."""

from __future__ import annotations

import sys

from ...events import Event
from ...tasks import Task


class View:
    """The view of a run. This one shows nothing."""

    def start(self, task: Task) -> None:
        """Show the task; called before the run."""

    def observe(self, event: Event) -> None:
        """Show an event; called from any thread."""

    def stop(self) -> None:
        """End the view; called after the run, however it ended."""


def choose_view(quiet: bool) -> View:
    """Return the view that suits standard error."""
    from .lines import LineView

    if quiet:
        return View()
    if not sys.stderr.isatty():
        return LineView(sys.stderr)
    from rich.console import Console

    from .live import LiveView

    console = Console(stderr=True)
    return LineView(sys.stderr) if console.is_dumb_terminal else LiveView(console)
