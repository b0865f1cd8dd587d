"""Which answers can be accepted: those above a threshold that keeps the error below what is wanted.

The threshold is chosen on answers that the calibrator had not seen. For some thresholds, the bound of Clopper and
Pearson on the error above them is computed; the lowest threshold whose bound is within the limit is taken. The bounds
hold for all thresholds together (Bonferroni), so that having chosen the best does not spoil them: with 95% confidence,
the share of wrong answers among those that are accepted is within the limit, for answers like those it was fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import RlmError

CONFIDENCE = 0.95
_THRESHOLDS = 10  # that are looked at


class NoRule(RlmError, ValueError):
    """No threshold keeps the error within the limit, as far as the held-out answers can tell."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Answers from a threshold on are accepted."""

    error: float
    """What was asked for: the largest share of wrong answers."""

    threshold: float
    coverage: float
    """The share of the held-out answers that it accepts."""

    seen: float
    """The share of wrong ones among these."""

    bound: float
    """What that share is at most, with 95% confidence."""

    @classmethod
    def choose(cls, error: float, held_out: Sequence[tuple[float, bool]]) -> Rule:
        """The rule that accepts the most answers. Raises `NoRule`."""
        if not isinstance(error, int | float):
            raise TypeError(f"accept_at: error is a number between 0 and 1, such as 0.1, not {error!r:.60}")
        if not 0 < error < 1:
            raise ValueError(f"accept_at: error is a share between 0 and 1, not {error!r}")
        rules = _rules(error, held_out)
        good = [rule for rule in rules if rule.bound <= error]
        if good:
            return max(good, key=lambda rule: rule.coverage)
        least = _enough(error)
        if not rules:
            raise NoRule(
                f"the calibrator has {len(held_out)} held-out answers; to tell that an error is at most {error:.0%}, "
                f"at least {least} are needed. Fit it on more samples."
            )
        best = min(rules, key=lambda rule: rule.bound)
        raise NoRule(
            f"no threshold of this calibrator keeps the error at {error:.0%} with {CONFIDENCE:.0%} confidence: "
            f"the surest {best.coverage:.0%} of its held-out answers have an error of up to {best.bound:.1%}. "
            "Allow more error, or fit it on more samples."
        )

    def refuses(self, confidence: float) -> str | None:
        """Why an answer of this confidence is not acceptable, if it is not."""
        if confidence >= self.threshold:
            return None
        return (
            f"the confidence in the answer is {confidence:.2f}, and an error of at most {self.error:.0%} "
            f"needs {self.threshold:.2f}"
        )


def _rules(error: float, held_out: Sequence[tuple[float, bool]]) -> list[Rule]:
    """Rules with thresholds at equal steps of coverage, from the smallest number of answers that could be enough."""
    order = sorted(held_out, key=lambda one: -one[0])
    least = _enough(error)
    if len(order) < least:
        return []
    step = (len(order) - least) / (_THRESHOLDS - 1)
    rules: dict[float, Rule] = {}
    for index in range(_THRESHOLDS):
        threshold = order[min(round(least + index * step), len(order)) - 1][0]
        taken = [right for score, right in order if score >= threshold]
        wrong = taken.count(False)
        bound = upper_bound(wrong, len(taken), (1 - CONFIDENCE) / _THRESHOLDS)
        rules[threshold] = Rule(error, threshold, len(taken) / len(order), wrong / len(taken), bound)
    return list(rules.values())


def _enough(error: float) -> int:
    """How many answers without a single wrong one show that the error is within the limit."""
    return math.ceil(math.log((1 - CONFIDENCE) / _THRESHOLDS) / math.log(1 - error))


def upper_bound(wrong: int, n: int, doubt: float) -> float:
    """Clopper and Pearson's bound: the error that would show so few wrong ones among n only with this probability."""
    if wrong >= n:
        return 1.0
    low, high = wrong / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(wrong, n, middle) > doubt else (low, middle)
    return high


def _at_most(wrong: int, n: int, p: float) -> float:
    """The probability of at most so many wrong ones among n."""
    if p <= 0 or p >= 1:
        return float(p <= 0)
    # From the largest term down: above the observed share, each one is smaller than the one before.
    log = math.lgamma(n + 1) - math.lgamma(wrong + 1) - math.lgamma(n - wrong + 1)
    term = math.exp(log + wrong * math.log(p) + (n - wrong) * math.log1p(-p))
    total = 0.0
    for k in range(wrong, -1, -1):
        total += term
        if term <= total * 1e-12:
            break
        term *= k / (n - k + 1) * (1 - p) / p
    return total
