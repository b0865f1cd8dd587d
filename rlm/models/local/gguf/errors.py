"""The error of weights."""

from __future__ import annotations

from ....errors import RlmError


class WeightsError(RlmError):
    """Weights that are missing or cannot be used; the message says which, why, and what to do."""
