"""A calibrator: from the evidence for each field to the probability that it is correct, and that all fields are.

A calibrator is a scorer, as `Predict(confidence=...)` takes one. Applying it needs nothing but arithmetic.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ..extraction.confidence import Judgement, Scorer
from ..extraction.evidence.features import FORMULA, kind_of
from ..extraction.evidence.find import Findings
from .threshold import Rule

MIN_PROBABILITY, MAX_PROBABILITY = 0.005, 0.995
"""A few hundred answers do not support a more extreme probability."""

_LOCAL = re.compile(r"(?:.*/)?(?P<stem>[^/]+?)(?:@[0-9a-f]{8}|\.gguf)", re.IGNORECASE)
"""The name of a model that runs here, with its fingerprint, or the path of its weights."""

METHODS = ("isotonic", "logistic")
Way = Literal["product", "least", "scaled"]
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A rising curve from the score of the formula to a probability: linear between its points and flat outside."""

    points: tuple[tuple[float, float], ...]
    """Scores with their probabilities, both rising."""

    def __call__(self, score: float) -> float:
        """Return the probability for a score."""
        after = bisect.bisect_left([x for x, _ in self.points], score)
        if after == len(self.points):
            return self.points[-1][1]
        x, y = self.points[after]
        if after == 0 or x == score:
            return y
        left, low = self.points[after - 1]
        return low + (y - low) * (score - left) / (x - left)


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic model of the evidence: the log-odds are a weighted sum."""

    intercept: float
    weights: Mapping[str, float]

    def __call__(self, features: Mapping[str, float]) -> float:
        """Return the probability for the evidence."""
        terms = (weight * features.get(name, 0.0) for name, weight in self.weights.items())
        return sigmoid(self.intercept + sum(terms))


@dataclass(frozen=True, slots=True)
class Whole:
    """From the probabilities of the fields to the probability of the answer.

    `product`: the fields are independent. `least`: the weakest field decides. `scaled`: the product, with its log-odds
    corrected by a line.
    """

    way: Way
    intercept: float = 0.0
    slope: float = 1.0

    def __call__(self, fields: Iterable[float]) -> float:
        """Return the probability that all fields are correct."""
        probabilities = list(fields)
        if self.way == "least":
            return min(probabilities)
        product = clamp(math.prod(probabilities))
        return product if self.way == "product" else clamp(sigmoid(self.intercept + self.slope * logit(product)))


@dataclass(frozen=True)
class Calibrator:
    """A fitted calibrator, with the data that it was fitted on and its measures on other data."""

    curve: Isotonic | Logistic
    """The probability that a field is correct: from the formula's score (isotonic) or from the evidence (logistic)."""

    whole: Whole
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    """Suites and models, and the numbers of samples, answers and fields."""

    measures: Mapping[str, Any] = field(default_factory=dict)
    """The measures on held-out answers, before and after: see `select.Report`."""

    held_out: tuple[tuple[float, bool], ...] = ()
    """For one answer of each sample: its probability by a fit without the sample, and whether it was correct."""

    rule: Rule | None = None
    """Which answers are accepted; all, if there is no rule."""

    note: str | None = None
    """A warning that is added to every answer, such as that the calibrator was fitted on other models."""

    @property
    def method(self) -> str:
        """The kind of the curve."""
        return "isotonic" if isinstance(self.curve, Isotonic) else "logistic"

    def field(self, features: Mapping[str, float]) -> float:
        """Return the probability that a field is correct, given its evidence."""
        return clamp(
            self.curve(features.get(FORMULA, 0.0)) if isinstance(self.curve, Isotonic) else self.curve(features)
        )

    def fields(self, evidence: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the probability of each field."""
        return {name: self.field(features) for name, features in evidence.items()}

    def accepting(self, error: float) -> Calibrator:
        """Return this calibrator with a rule: at most this share of the answers it accepts is wrong.

        Raises `NoThreshold`.
        """
        return replace(self, rule=Rule.choose(error, self.held_out))

    def used_with(self, models: Iterable[str]) -> Calibrator:
        """Return this calibrator for runs with these models, with a note if it was not fitted on all of them."""
        known = list(dict.fromkeys(_model_name(str(model)) for model in self.fitted_on.get("models") or ()))
        others = [model for model in dict.fromkeys(map(_model_name, models)) if model not in known]
        if not known or not others:
            return self
        return replace(
            self,
            note=f"The confidence is by a calibrator that was fitted on {', '.join(known)}, not on "
            f"{', '.join(others)}: for these it may be far off.",
        )

    def __call__(self, outputs: Mapping[str, Any], findings: Findings) -> Judgement:
        """Return the confidence in an answer and in each field, and why it is not accepted, if it is not."""
        return self.judge(findings.features)

    def judge(self, features: Mapping[str, Mapping[str, float]]) -> Judgement:
        """Return the judgement of an answer by the features of its fields."""
        fields = self.fields(features)
        confidence = self.whole(fields.values()) if fields else MIN_PROBABILITY
        refused = self.rule.refuses(confidence) if self.rule is not None else None
        return Judgement(
            confidence, fields, refused, " ".join(filter(None, [self.note, self._unseen(features)])) or None
        )

    def _unseen(self, features: Mapping[str, Mapping[str, float]]) -> str | None:
        """Return that no answer like this one was among those it was fitted on; None if one was."""
        endings, kinds = self.fitted_on.get("endings"), self.fitted_on.get("kinds")
        ending = "submitted" if any(row.get("submitted") for row in features.values()) else "extracted"
        known = [str(one).lower() for one in endings] if endings else ["extracted"] if self.fitted_on else [ending]
        others = [] if ending in known else [f"{ending} answers"]
        if kinds:
            others += sorted(
                {f"values of the kind {kind_of(row)}" for row in features.values()}
                - {f"values of the kind {kind}" for kind in kinds}
            )
        if not others:
            return None
        return f"The calibrator of the confidence has never seen {' and '.join(others)}: for these it may be far off."


def for_models(scorer: Scorer, models: Iterable[str]) -> Scorer:
    """Return the scorer for runs with these models: a calibrator notes if it was not fitted on them."""
    return scorer.used_with(models) if isinstance(scorer, Calibrator) else scorer


def without_rule(scorer: Scorer) -> Scorer:
    """Return the scorer so that it accepts every answer."""
    return replace(scorer, rule=None) if isinstance(scorer, Calibrator) else scorer


def _model_name(model: str) -> str:
    """Return a model as it is compared: one that runs here by the name of its weights alone."""
    found = _LOCAL.fullmatch(model)
    return found["stem"] if found else model


def clamp(p: float) -> float:
    """Return a probability that is not closer to certainty than the data support."""
    return min(max(p, MIN_PROBABILITY), MAX_PROBABILITY)


def sigmoid(x: float) -> float:
    """Return the probability for log-odds."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def logit(p: float) -> float:
    """Return the log-odds of a probability."""
    return math.log(p / (1 - p))
