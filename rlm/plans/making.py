"""Making a set of plans: gathered from their sources, without near-duplicates, compared, and written down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..repl.driver import Driver
from ..repl.events import Teller
from . import proposing
from .adjusting import Adjustment, adjust
from .asking import LoopAsker
from .comparing import compare, without_duplicates
from .plan import CandidateSet, Plan, Rejection, new_id
from .plan_logs import PlanLogs
from .proposing import NoPlans, Request
from .settings import PlanSettings


@dataclass(frozen=True)
class PlanMaker:
    """Makes the sets of plans of one loop."""

    loop_id: str
    driver: Driver
    inputs: dict[str, Any]
    models: Mapping[str, Any]
    settings: PlanSettings
    logs: PlanLogs
    tell: Teller
    asker: LoopAsker

    async def first(self) -> CandidateSet:
        """The first set. Raises `NoPlans`, and what asking a model raises."""
        return await self._make(list(self.settings.plans), 1, Adjustment(self.settings.weights), ())

    async def again(
        self, last: CandidateSet, rejections: Sequence[Rejection], note: str | None
    ) -> tuple[CandidateSet, Adjustment]:
        """The set after one that was rejected, with what was changed because of it. `note` is an operator's."""
        latest = [one for one in rejections if one.comparison_set_id == last.comparison_set_id]
        adjustment = adjust(last.weights, latest, self.settings.stronger)
        if note:
            adjustment = replace(adjustment, advice=(*adjustment.advice, f"An operator says: {note}"))
        return await self._make([], last.round + 1, adjustment, tuple(rejections)), adjustment

    async def _make(
        self, plans: list[Plan], number: int, adjustment: Adjustment, rejected: tuple[Rejection, ...]
    ) -> CandidateSet:
        """A set of plans: those that are given, the caller's, and as many of the model's as are missing."""
        request = self._request(number, adjustment, rejected)
        for plan in plans:
            proposing.check(plan, request.models, request.tools)
        if self.settings.propose is not None:
            plans += await proposing.from_function(self.settings.propose, request)
        earlier = [one.plan for one in rejected]
        kept, dropped = without_duplicates(plans, earlier)
        missing = self.settings.count - len(kept)
        if missing > 0:
            model = self.models[self.settings.planner or "main"]
            wanted = replace(request, count=missing)
            proposed = await proposing.from_model(wanted, lambda prompt: self.asker.ask(model, prompt, "planning"))
            proposed = [replace(one, model=one.model or adjustment.model) for one in proposed]
            kept, more = without_duplicates([*kept, *proposed], earlier)
            dropped += more
        if not kept:
            raise NoPlans("no new plan was found: " + ("; ".join(dropped) or "none was proposed"))
        ids = [one.plan_id for one in kept]
        kept = [replace(one, plan_id=new_id()) if ids.count(one.plan_id) > 1 else one for one in kept]
        candidates = compare(self.loop_id, number, kept, adjustment.weights, dropped)
        await asyncio.to_thread(self.logs.compared, candidates)
        self.tell("plans_compared", candidates.to_dict())
        return candidates

    def _request(self, number: int, adjustment: Adjustment, rejected: tuple[Rejection, ...]) -> Request:
        return Request(
            self.driver.signature,
            self.inputs,
            self.settings.count,
            number,
            adjustment.weights,
            tuple(self.models),
            tuple(self.driver.tools),
            str(self.asker.ledger.remaining()),
            rejected,
            adjustment.advice,
        )
