"""What can be wrong with a session of several questions."""

from __future__ import annotations

from ..errors import RlmError


class SessionError(RlmError):
    """A session cannot do what it was asked for."""


class UnknownSession(SessionError, LookupError):
    """No session, or more than one, has an id with this prefix."""


class SessionInUse(SessionError):
    """Another process, or another object of this one, has the session open."""
