"""What can be wrong with the weights of a model."""

from __future__ import annotations

from ....errors import RlmError


class WeightsError(RlmError):
    """Weights that are not there or cannot be used; the message says which, why, and what to do."""
