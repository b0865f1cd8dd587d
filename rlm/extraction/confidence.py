"""How far to trust outputs that were extracted. The scorer is one function, and a caller can bring another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .evidence import Findings

Scorer: TypeAlias = Callable[[Mapping[str, Any], Findings], float]
"""From the outputs by field, and what was found of them, to a confidence between 0 and 1."""


def score(outputs: Mapping[str, Any], findings: Findings) -> float:
    """Half, more where the values can be seen, less for every field that is null; never certain, never hopeless."""
    confidence = 0.5
    if findings.in_variables:
        confidence += 0.3
    if findings.in_history:
        confidence += 0.2
    confidence -= 0.3 * findings.null_ratio
    return min(max(confidence, 0.1), 0.99)
