"""The planner: makes the sets of plans of one loop, and adjusts the next set to what was rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import proposals
from .candidates import compare, without_duplicates
from .context import LoopContext
from .plan import CandidateSet, Plan, Rejection, Weights, new_id
from .proposals import NoPlans, PlanRequest

# Thresholds by subject, with their names in `governance.py`.
_EXPENSIVE = ("cost_usd", "seconds", "budget_share", "budget_left")
_UNCERTAIN = ("confidence", "extracted", "ending")
_WRONG = ("invariant", "function", "judge")


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The changes for the next round of plans."""

    weights: Weights
    advice: tuple[str, ...] = ()
    """Advice for the source of the plans."""

    more_calls: bool = False
    """Whether the next plans may make twice as many calls of smaller models."""

    model: str | None = None
    """A stronger model for the next plans, if one is configured."""


@dataclass(frozen=True)
class Planner:
    """Makes the sets of plans of one loop."""

    context: LoopContext

    async def first(self) -> CandidateSet:
        """Return the first set. Raises `NoPlans`, `ModelError` and `BudgetExceeded`."""
        settings = self.context.settings
        return await self._make(list(settings.plans), 1, Adjustment(settings.weights), ())

    async def again(
        self, last: CandidateSet, rejections: Sequence[Rejection], note: str | None
    ) -> tuple[CandidateSet, Adjustment]:
        """Return the set after a rejected one, and its adjustment; `note` is that of an operator.

        Raises as `first` does.
        """
        adjustment = self.adjustment_after(last, rejections)
        if note:
            adjustment = replace(adjustment, advice=(*adjustment.advice, f"An operator says: {note}"))
        return await self._make([], last.round + 1, adjustment, tuple(rejections)), adjustment

    def adjustment_after(self, last: CandidateSet, rejections: Sequence[Rejection]) -> Adjustment:
        """Return the adjustment after a set whose plans were rejected."""
        latest = [rejection for rejection in rejections if rejection.comparison_set_id == last.comparison_set_id]
        return adjust(last.weights, latest, self.context.settings.stronger)

    async def _make(
        self, plans: list[Plan], number: int, adjustment: Adjustment, rejected: tuple[Rejection, ...]
    ) -> CandidateSet:
        """Make a set of the given plans, those of the caller's function, and as many of the model's as are missing."""
        context, settings = self.context, self.context.settings
        request = self._request(number, adjustment, rejected)
        for plan in plans:
            proposals.check(plan, request.models, request.tools)
        if settings.propose is not None:
            plans += await proposals.from_function(settings.propose, request)
        earlier = [rejection.plan for rejection in rejected]
        distinct, dropped = without_duplicates(plans, earlier)
        missing = settings.count - len(distinct)
        if missing > 0:
            proposed = await proposals.from_model(
                replace(request, count=missing), lambda prompt: context.ask(settings.planner, prompt, "planning")
            )
            proposed = [replace(plan, model=plan.model or adjustment.model) for plan in proposed]
            distinct, duplicates = without_duplicates([*distinct, *proposed], earlier)
            dropped += duplicates
        if not distinct:
            raise NoPlans("there is no new plan: " + ("; ".join(dropped) or "none was proposed"))
        ids = [plan.plan_id for plan in distinct]
        distinct = [replace(plan, plan_id=new_id()) if ids.count(plan.plan_id) > 1 else plan for plan in distinct]
        candidates = compare(context.loop_id, number, distinct, adjustment.weights, dropped)
        await asyncio.to_thread(context.logs.add_comparison, candidates, context.config.signature.output_schema())
        context.emit(candidates.to_event(context.run_id))
        return candidates

    def _request(self, number: int, adjustment: Adjustment, rejected: tuple[Rejection, ...]) -> PlanRequest:
        context = self.context
        return PlanRequest(
            context.config.signature,
            context.inputs,
            context.settings.count,
            number,
            adjustment.weights,
            tuple(context.models),
            tuple(context.config.tools),
            str(context.ledger.remaining()),
            rejected,
            adjustment.advice,
        )


def adjust(weights: Weights, rejections: Sequence[Rejection], stronger: str | None) -> Adjustment:
    """Return the adjustment after these rejections. A weight grows by the share of plans that failed because of it.

    After expensive or slow plans, cost weighs more. After uncertain ones, risk weighs more, and the next plans get more
    sub-calls and the stronger model. After wrong ones, fit weighs more.
    """
    expensive, uncertain, wrong = (_share(rejections, metrics) for metrics in (_EXPENSIVE, _UNCERTAIN, _WRONG))
    advice = []
    if expensive:
        advice.append("Plans were too expensive or too slow. Read less, ask fewer models, and submit earlier.")
    if uncertain:
        advice.append(
            "Answers were too uncertain. Check them with sub-calls (llm_query), and print the evidence for them."
        )
    if wrong:
        advice.append("Answers were wrong. Take another approach, and check the result before SUBMIT.")
    adjusted = replace(
        weights, cost=weights.cost * (1 + expensive), risk=weights.risk * (1 + uncertain), fit=weights.fit * (1 + wrong)
    )
    return Adjustment(adjusted, tuple(advice), uncertain > 0, stronger if uncertain else None)


def _share(rejections: Sequence[Rejection], metrics: tuple[str, ...]) -> float:
    if not rejections:
        return 0.0
    failed = [r for r in rejections if any(_subject(threshold.metric) in metrics for threshold in r.failed)]
    return len(failed) / len(rejections)


def _subject(metric: str) -> str:
    """Return the subject of a metric: that of `budget_share.tokens` is the budget share."""
    return metric.partition(".")[0]
