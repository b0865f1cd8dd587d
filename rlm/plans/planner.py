"""Making a set of plans: gathered from their sources, without near-duplicates, compared, and written down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import proposals
from .adjustment import Adjustment, adjust
from .candidates import compare, without_duplicates
from .context import Context
from .plan import CandidateSet, Plan, Rejection, new_id
from .proposals import NoPlans, Request


@dataclass(frozen=True)
class PlanMaker:
    """Makes the sets of plans of one loop."""

    context: Context

    async def first(self) -> CandidateSet:
        """The first set. Raises `NoPlans`, and what asking a model raises."""
        settings = self.context.settings
        return await self._make(list(settings.plans), 1, Adjustment(settings.weights), ())

    async def again(
        self, last: CandidateSet, rejections: Sequence[Rejection], note: str | None
    ) -> tuple[CandidateSet, Adjustment]:
        """The set after one that was rejected, with what was changed because of it. `note` is an operator's."""
        adjustment = self.after(last, rejections)
        if note:
            adjustment = replace(adjustment, advice=(*adjustment.advice, f"An operator says: {note}"))
        return await self._make([], last.round + 1, adjustment, tuple(rejections)), adjustment

    def after(self, last: CandidateSet, rejections: Sequence[Rejection]) -> Adjustment:
        """What is changed because a set was rejected."""
        latest = [one for one in rejections if one.comparison_set_id == last.comparison_set_id]
        return adjust(last.weights, latest, self.context.settings.stronger)

    async def _make(
        self, plans: list[Plan], number: int, adjustment: Adjustment, rejected: tuple[Rejection, ...]
    ) -> CandidateSet:
        """A set of plans: those that are given, the caller's, and as many of the model's as are missing."""
        context, settings = self.context, self.context.settings
        request = self._request(number, adjustment, rejected)
        for plan in plans:
            proposals.check(plan, request.models, request.tools)
        if settings.propose is not None:
            plans += await proposals.from_function(settings.propose, request)
        earlier = [one.plan for one in rejected]
        kept, dropped = without_duplicates(plans, earlier)
        missing = settings.count - len(kept)
        if missing > 0:
            wanted = replace(request, count=missing)
            proposed = await proposals.from_model(
                wanted, lambda prompt: context.ask(settings.planner, prompt, "planning")
            )
            proposed = [replace(one, model=one.model or adjustment.model) for one in proposed]
            kept, more = without_duplicates([*kept, *proposed], earlier)
            dropped += more
        if not kept:
            raise NoPlans("no new plan was found: " + ("; ".join(dropped) or "none was proposed"))
        ids = [one.plan_id for one in kept]
        kept = [replace(one, plan_id=new_id()) if ids.count(one.plan_id) > 1 else one for one in kept]
        candidates = compare(context.loop_id, number, kept, adjustment.weights, dropped)
        await asyncio.to_thread(context.logs.compared, candidates, context.driver.signature.output_schema())
        context.emit(candidates.to_event(context.run_id))
        return candidates

    def _request(self, number: int, adjustment: Adjustment, rejected: tuple[Rejection, ...]) -> Request:
        context = self.context
        return Request(
            context.driver.signature,
            context.inputs,
            context.settings.count,
            number,
            adjustment.weights,
            tuple(context.models),
            tuple(context.driver.tools),
            str(context.ledger.remaining()),
            rejected,
            adjustment.advice,
        )
