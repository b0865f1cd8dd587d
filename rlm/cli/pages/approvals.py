"""Approvals of calls in a line, for views of a run."""

from __future__ import annotations

from ...events import ApprovalAnswered, ApprovalRequested, Event
from ..console import clean, count, one_line


def approval_line(event: Event) -> str:
    """Return the line of an event about an approval; an empty text for other events."""
    match event:
        case ApprovalRequested():
            what = f"{clean(event.function)}, {count(event.count, 'call')}"
            return f"waiting for an approval: {what}; rlm escalations show {event.approval_id}"
        case ApprovalAnswered():
            state = f"approved for the {clean(event.scope)}" if event.approved else "rejected"
            return f"{state} ({clean(event.answered_by)}) {one_line(event.note or '', 100)}".rstrip()
    return ""
