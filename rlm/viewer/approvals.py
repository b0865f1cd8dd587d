"""Approvals of a run for the page: the calls that wait for a person, and the answer that is given there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MOST_CALLS, _MOST_CHARS = 1_000, 2_000


class ApprovalRefused(ValueError):
    """What the page has sent is no answer to a question of the run; the message says why."""


class RunApprovals:
    """The approvals of the runs in a home."""

    def __init__(self, home: Path | str | None) -> None:
        self._folder = None if home is None else Path(home) / "approvals"

    def waiting(self, run_id: str) -> list[dict[str, Any]]:
        """Return the questions of a run that nobody has answered."""
        logs = self._logs()
        waiting = [
            request
            for request in logs.all()
            if request.run_id == run_id and logs.answer_to(request.approval_id) is None
        ]
        return [
            {"id": request.approval_id, "title": request.title, "calls": request.lines(_MOST_CALLS, _MOST_CHARS)}
            for request in waiting
        ]

    def answer(self, run_id: str, approval_id: str, body: bytes) -> dict[str, Any]:
        """Put the answer to a question of a run on file. Raise `ApprovalRefused` or `ApprovalAlreadyAnswered`."""
        from ..mcp.approvals import ApprovalAnswer

        try:
            data = json.loads(body)
            approved, scope = data["approved"], data.get("scope", "calls")
            answer = ApprovalAnswer(approval_id, approved, scope, answered_by="page")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ApprovalRefused("An answer has `approved` and a `scope`: calls, cell or run.") from None
        if not isinstance(approved, bool):
            raise ApprovalRefused("`approved` is true or false.")
        if not any(entry["id"] == approval_id for entry in self.waiting(run_id)):
            raise ApprovalRefused("Nothing waits for this answer any more.")
        self._logs().answer_once(answer)
        return {"approved": approved, "scope": scope}

    def _logs(self) -> Any:
        from ..mcp.approvals import ApprovalLogs

        return ApprovalLogs(self._folder)
