"""How far to trust outputs that were extracted. The scorer is one function, and a caller can bring another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeAlias

from .evidence.find import Findings


@dataclass(frozen=True, slots=True)
class Judgement:
    """A confidence with more to say: field by field, and whether the answer can be accepted at all."""

    confidence: float
    fields: Mapping[str, float] = field(default_factory=dict)
    """How likely each field is right."""

    refused: str | None = None
    """Why the answer is not acceptable, if it is not."""

    note: str | None = None
    """What else should be known of the confidence."""


Scorer: TypeAlias = Callable[[Mapping[str, Any], Findings], float | Judgement]
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


def judged(scorer: Scorer, outputs: Mapping[str, Any], findings: Findings) -> Judgement:
    """What a scorer says, in one form. Where that is no confidence, the answer is refused, and the reason says why."""
    try:
        said = scorer(outputs, findings)
        made = said if isinstance(said, Judgement) else Judgement(said)
        return replace(made, confidence=_share(made.confidence), fields={k: _share(v) for k, v in made.fields.items()})
    except Exception as error:  # whoever wrote the scorer must see it; what was extracted must not be lost by it
        name = getattr(scorer, "__qualname__", type(scorer).__qualname__)
        return Judgement(0.0, refused=f"the scorer {name} gave no confidence: {type(error).__name__}: {error}")


def _share(value: Any) -> float:
    if value is True or value is False or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"a confidence is a number from 0 to 1, not {value!r:.60}")
    return float(value)
