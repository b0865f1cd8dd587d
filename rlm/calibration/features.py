"""What a calibrator goes by: the evidence for each field of a result, in numbers."""

from __future__ import annotations

from typing import Any

from ..extraction.evidence.features import FEATURES, FORMULA
from ..results import ExecutionResult, Extracted

__all__ = ["FEATURES", "FORMULA", "features_of"]


def features_of(result: ExecutionResult[Any]) -> dict[str, dict[str, float]]:
    """The evidence for each field of an extracted answer; nothing for the other endings, which need no calibrator."""
    if not isinstance(result, Extracted):
        return {}
    return {field: dict(numbers) for field, numbers in result.features.items()}
