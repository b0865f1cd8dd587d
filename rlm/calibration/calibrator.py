"""A calibrator: from the evidence for each field to the probability that it is right, and that all of them are.

It is a scorer, as `Predict(confidence=...)` takes one. Using it needs nothing but arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ..extraction.confidence import Judgement
from ..extraction.evidence.find import Findings
from .features import FORMULA
from .isotonic import Isotonic
from .logistic import Logistic, logit, sigmoid
from .threshold import Rule

LEAST, MOST = 0.005, 0.995  # nothing that was learnt from some hundred answers is surer than this

METHODS = ("isotonic", "logistic")
Way = Literal["product", "least", "scaled"]
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True, slots=True)
class Whole:
    """From the probabilities of the fields to that of the answer.

    `product`: they are right or wrong independently. `least`: the weakest one decides. `scaled`: the product, with its
    odds corrected by a line.
    """

    way: Way
    intercept: float = 0.0
    slope: float = 1.0

    def __call__(self, fields: Iterable[float]) -> float:
        """The probability that all fields are right."""
        some = list(fields)
        if self.way == "least":
            return min(some)
        product = held(math.prod(some))
        return product if self.way == "product" else held(sigmoid(self.intercept + self.slope * logit(product)))


@dataclass(frozen=True)
class Calibrator:
    """What was learnt, from what, and how good it was on answers that it had not seen."""

    curve: Isotonic | Logistic
    """To the probability that a field is right: from the formula's score (isotonic) or from the evidence (logistic)."""

    whole: Whole
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    """Suites, models, how many samples, answers and fields."""

    measures: Mapping[str, Any] = field(default_factory=dict)
    """On held-out answers, before and after: see `deciding.Report`."""

    held_out: tuple[tuple[float, bool], ...] = ()
    """One answer to each sample: its probability from a fit that did not see the sample, and whether it was right."""

    rule: Rule | None = None
    """Which answers can be accepted; all, unless there is one."""

    note: str | None = None
    """What is said with every answer: that other models gave those it was fitted on."""

    @property
    def method(self) -> str:
        """What kind of curve it is."""
        return "isotonic" if isinstance(self.curve, Isotonic) else "logistic"

    def field(self, numbers: Mapping[str, float]) -> float:
        """The probability that a field is right, from its evidence."""
        return held(self.curve(numbers[FORMULA]) if isinstance(self.curve, Isotonic) else self.curve(numbers))

    def fields(self, evidence: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """The probability of each field."""
        return {name: self.field(numbers) for name, numbers in evidence.items()}

    def accepting(self, error: float) -> Calibrator:
        """The same, with a rule: of the answers that it accepts, at most this share is wrong. Raises `NoRule`."""
        return replace(self, rule=Rule.choose(error, self.held_out))

    def used_with(self, models: Iterable[str]) -> Calibrator:
        """The same, for runs with these models; if it knows one of them not, it says so with every answer."""
        known = [str(one) for one in self.fitted_on.get("models") or ()]
        others = [one for one in dict.fromkeys(models) if one not in known]
        if not known or not others:
            return self
        return replace(
            self,
            note=f"The confidence is by a calibrator that was fitted on {', '.join(known)}, not on "
            f"{', '.join(others)}: for these it may be far off.",
        )

    def __call__(self, outputs: Mapping[str, Any], findings: Findings) -> Judgement:
        """The confidence in an answer, field by field, and whether it can be accepted."""
        fields = self.fields(findings.features)
        confidence = self.whole(fields.values()) if fields else LEAST
        refused = self.rule.refuses(confidence) if self.rule is not None else None
        return Judgement(confidence, fields, refused, self.note)


def held(p: float) -> float:
    """A probability, kept away from certainty."""
    return min(max(p, LEAST), MOST)
