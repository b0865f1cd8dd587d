"""The threshold of acceptance: answers with at minimum this confidence are accepted, and few of them are wrong.

The threshold is chosen on answers that the calibrator was not fitted on. For several thresholds, the Clopper-Pearson
bound of the error above them is computed; the lowest threshold whose bound is within the limit is chosen. The bounds
hold for all thresholds together (Bonferroni), so that the choice does not invalidate them: with 95% confidence, the
share of wrong answers among the accepted ones is within the limit, for answers like those it was fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import RlmError

CONFIDENCE = 0.95
_THRESHOLDS = 10
"""The number of thresholds to try."""


class NoThreshold(RlmError, ValueError):
    """No threshold keeps the error within the limit, judged by the held-out answers."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that accepts answers with at minimum a threshold of confidence."""

    error: float
    """The largest acceptable share of wrong answers."""

    threshold: float
    coverage: float
    """The share of the held-out answers that are accepted."""

    seen: float
    """The share of wrong answers among these."""

    bound: float
    """The upper bound of that share, with 95% confidence."""

    @classmethod
    def choose(cls, error: float, held_out: Sequence[tuple[float, bool]]) -> Rule:
        """Return the rule that accepts the most answers. Raises `NoThreshold`."""
        if not isinstance(error, int | float):
            raise TypeError(f"accept_at: error must be a number between 0 and 1, such as 0.1, not {error!r:.60}")
        if not 0 < error < 1:
            raise ValueError(f"accept_at: error must be between 0 and 1, not {error!r}")
        rules = _rules(error, held_out)
        valid = [rule for rule in rules if rule.bound <= error]
        if valid:
            return max(valid, key=lambda rule: rule.coverage)
        minimum = _min_answers(error)
        if not rules:
            raise NoThreshold(
                f"the calibrator has {len(held_out)} held-out answers; to tell that an error is at most {error:.0%}, "
                f"at least {minimum} are needed. Fit it on more samples."
            )
        best = min(rules, key=lambda rule: rule.bound)
        raise NoThreshold(
            f"no threshold of this calibrator keeps the error at {error:.0%} with {CONFIDENCE:.0%} confidence: "
            f"the surest {best.coverage:.0%} of its held-out answers have an error of up to {best.bound:.1%}. "
            "Allow more error, or fit it on more samples."
        )

    def refuses(self, confidence: float) -> str | None:
        """Return why an answer with this confidence is not accepted; None if it is."""
        if confidence >= self.threshold:
            return None
        return (
            f"the confidence in the answer is {confidence:.2f}, and an error of at most {self.error:.0%} "
            f"needs {self.threshold:.2f}"
        )


def _rules(error: float, held_out: Sequence[tuple[float, bool]]) -> list[Rule]:
    """Return rules with thresholds at equal steps of coverage, from the smallest sufficient number of answers."""
    order = sorted(held_out, key=lambda pair: -pair[0])
    minimum = _min_answers(error)
    if len(order) < minimum:
        return []
    step = (len(order) - minimum) / (_THRESHOLDS - 1)
    rules: dict[float, Rule] = {}
    for index in range(_THRESHOLDS):
        threshold = order[min(round(minimum + index * step), len(order)) - 1][0]
        accepted = [correct for score, correct in order if score >= threshold]
        wrong = accepted.count(False)
        bound = upper_bound(wrong, len(accepted), (1 - CONFIDENCE) / _THRESHOLDS)
        rules[threshold] = Rule(error, threshold, len(accepted) / len(order), wrong / len(accepted), bound)
    return list(rules.values())


def _min_answers(error: float) -> int:
    """Return how many correct answers, without a wrong one, show that the error is within the limit."""
    return math.ceil(math.log((1 - CONFIDENCE) / _THRESHOLDS) / math.log(1 - error))


def upper_bound(wrong: int, n: int, doubt: float) -> float:
    """Return the Clopper-Pearson bound: the error at which so few wrong answers among n have only this probability."""
    if wrong >= n:
        return 1.0
    low, high = wrong / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(wrong, n, middle) > doubt else (low, middle)
    return high


def _at_most(wrong: int, n: int, p: float) -> float:
    """Return the probability of at most so many wrong answers among n."""
    if p <= 0 or p >= 1:
        return float(p <= 0)
    # Starting with the largest term: above the observed share, the terms decrease.
    log = math.lgamma(n + 1) - math.lgamma(wrong + 1) - math.lgamma(n - wrong + 1)
    term = math.exp(log + wrong * math.log(p) + (n - wrong) * math.log1p(-p))
    total = 0.0
    for k in range(wrong, -1, -1):
        total += term
        if term <= total * 1e-12:
            break
        term *= k / (n - k + 1) * (1 - p) / p
    return total
