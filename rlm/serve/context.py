"""What the handlers of requests share: the tasks, the records, the open sessions and the runs of one server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import RequestRefused, not_found
from .requests import BodyMemory
from .runs import ActiveRun, Runs
from .sessions import OpenSessions
from .store import RunRow, ServerStore, SessionRow
from .tasks import ServedTask
from .tokens import Token, Tokens


@dataclass(frozen=True)
class ServerSettings:
    """How much the server takes on, whoever asks."""

    runs: int = 16
    """Runs at the same time."""

    open_sessions: int = 32
    """Sessions with a kernel at the same time. Others are on the disk."""

    idle_seconds: float = 120.0
    """A session without a question for so long gives its kernel back."""

    connections: int = 1_000
    """Connections at the same time."""


@dataclass(frozen=True)
class Context:
    """One server."""

    tasks: Mapping[str, ServedTask]
    tokens: Tokens
    store: ServerStore
    sessions: OpenSessions
    runs: Runs
    root: Path
    address: Callable[[], str]
    memory: BodyMemory = field(default_factory=BodyMemory)

    def served(self, model: str) -> ServedTask:
        """Return a task by name. Raise `RequestRefused`."""
        if model not in self.tasks:
            names = ", ".join(self.tasks)
            raise RequestRefused(404, f"There is no model {model[:80]!r}; this server has {names}.", "model_not_found")
        return self.tasks[model]

    def session(self, token: Token, session_id: str) -> SessionRow:
        """Return a session of a token's owner. Raise `RequestRefused`."""
        row = self.store.session(token.id, session_id)
        if row is None:
            raise not_found("session", session_id)
        return row

    def run(self, token: Token, run_id: str) -> RunRow:
        """Return a run of a token's owner. Raise `RequestRefused`."""
        row = self.store.run(token.id, run_id)
        if row is None:
            raise not_found("run", run_id)
        return row

    def active(self, token: Token, run_id: str) -> ActiveRun | None:
        """Return a run that runs, or has ended lately."""
        return self.runs.find(token.id, run_id)

    def trace_link(self, run_id: str) -> str:
        """Return the address at which people see the trace of a run."""
        return f"{self.address()}/#/run/{run_id}"

    def about_run(self, row: RunRow) -> dict[str, Any]:
        """Return a run as clients see it."""
        return {
            "id": row.id,
            "object": "run",
            "model": row.model,
            "session": row.session,
            "created": row.created,
            "ended": row.ended,
            "status": row.ending or "running",
            "result": row.result,
            "links": {
                "events": f"{self.address()}/v1/runs/{row.id}/events",
                "trace": f"{self.address()}/v1/runs/{row.id}/trace",
                "page": self.trace_link(row.id),
            },
        }

    def about_session(self, row: SessionRow) -> dict[str, Any]:
        """Return a session as clients see it."""
        about = {name: value for name, value in asdict(row).items() if name != "owner"}
        return {**about, "object": "session", "busy": self.runs.is_busy(row.id)}
