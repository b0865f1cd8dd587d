"""After a set of plans was rejected: what the next ones should do otherwise, by what failed and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .plan import Rejection, Weights

# Which thresholds are about what. The names are those that `judging.py` gives them.
_DEAR = ("cost_usd", "seconds", "budget_share", "budget_left")
_UNSURE = ("confidence", "extracted", "ending")
_WRONG = ("invariant", "function", "judge")


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What changes for the next round."""

    weights: Weights
    advice: tuple[str, ...] = ()
    """What whoever makes the plans is told."""

    more_calls: bool = False
    """Whether the next plans may ask smaller models twice as often."""

    model: str | None = None
    """A stronger model for the next plans, where one is configured."""


def adjust(weights: Weights, rejections: Sequence[Rejection], stronger: str | None) -> Adjustment:
    """The adjustment after these rejections. A weight grows by the share of plans that failed on its account.

    Too dear or too slow: cost weighs more. Not sure enough: risk weighs more, the next plans have more sub-calls, and a
    stronger model if there is one. Wrong: fit weighs more.
    """
    dear, unsure, wrong = (_share(rejections, metrics) for metrics in (_DEAR, _UNSURE, _WRONG))
    advice = []
    if dear:
        advice.append("Plans were too dear or too slow. Read less, ask fewer models, and submit earlier.")
    if unsure:
        advice.append("Answers were not sure enough. Check them with sub-calls (llm_query), print what proves them.")
    if wrong:
        advice.append("Answers were wrong. Go about the task in another way, and check the result before SUBMIT.")
    grown = replace(
        weights, cost=weights.cost * (1 + dear), risk=weights.risk * (1 + unsure), fit=weights.fit * (1 + wrong)
    )
    return Adjustment(grown, tuple(advice), unsure > 0, stronger if unsure else None)


def _share(rejections: Sequence[Rejection], metrics: tuple[str, ...]) -> float:
    if not rejections:
        return 0.0
    failed = [one for one in rejections if any(_base(each.metric) in metrics for each in one.failed)]
    return len(failed) / len(rejections)


def _base(metric: str) -> str:
    """`budget_share.tokens` is about the budget share."""
    return metric.partition(".")[0]
