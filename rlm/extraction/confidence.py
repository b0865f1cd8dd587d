"""The confidence of extracted outputs: a formula, and the interface of other scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeAlias

from .evidence.find import Findings


@dataclass(frozen=True, slots=True)
class Judgement:
    """A confidence with details: for each field, and whether the answer is acceptable."""

    confidence: float
    fields: Mapping[str, float] = field(default_factory=dict)
    """The confidence of each field."""

    refused: str | None = None
    """Why the answer is not acceptable; None if it is."""

    note: str | None = None
    """A remark on the confidence, for the notes of the result."""


Scorer: TypeAlias = Callable[[Mapping[str, Any], Findings], float | Judgement]
"""A function of the outputs by field and their evidence that returns a confidence between 0 and 1."""


def score(outputs: Mapping[str, Any], findings: Findings) -> float:
    """Return 0.5, more for values that were found, less for null fields; between 0.1 and 0.99."""
    confidence = 0.5
    if findings.in_variables:
        confidence += 0.3
    if findings.in_history:
        confidence += 0.2
    confidence -= 0.3 * findings.null_ratio
    return min(max(confidence, 0.1), 0.99)


def judge(scorer: Scorer, outputs: Mapping[str, Any], findings: Findings) -> Judgement:
    """Call a scorer and return its judgement. If it gives no confidence, the answer is refused with the reason."""
    try:
        answer = scorer(outputs, findings)
        judgement = answer if isinstance(answer, Judgement) else Judgement(answer)
        fields = {name: _share(value) for name, value in judgement.fields.items()}
        return replace(judgement, confidence=_share(judgement.confidence), fields=fields)
    except Exception as error:  # shown in the reason: the extracted outputs are not lost
        name = getattr(scorer, "__qualname__", type(scorer).__qualname__)
        return Judgement(0.0, refused=f"the scorer {name} gave no confidence: {type(error).__name__}: {error}")


def _share(value: Any) -> float:
    if value is True or value is False or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"a confidence is a number from 0 to 1, not {value!r:.60}")
    return float(value)
