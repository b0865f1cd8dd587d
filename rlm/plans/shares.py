"""How much of a budget a plan gets: limits of its own, below those that all plans of a loop share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..budgets import FallbackTrigger, Ledger, Remaining, Usage
from .plan import Plan

_NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Shares:
    """The budget of one round of plans, and how it is divided."""

    whole: FallbackTrigger
    """The limits of the task."""

    left: Remaining
    """What was left of them when the round began."""

    plans: int
    """How many plans the round has."""

    rounds: int
    """How many rounds there may be, this one included. What is left is divided among them."""

    parallel: int = 1
    more_calls: bool = False
    """Whether the plans may ask smaller models twice as often as their part would be."""

    @classmethod
    def of(cls, ledger: Ledger, plans: int, rounds: int, parallel: int, more_calls: bool) -> Shares:
        """The shares of a round that begins now."""
        return cls(ledger.trigger, ledger.remaining(), max(1, plans), max(1, rounds), parallel, more_calls)

    def of_plan(self, plan: Plan, used: Usage = _NOTHING) -> FallbackTrigger:
        """The limits of a plan: its `budget_share` of the whole budget, or an even part of what is left.

        A plan that the model made gets no more than an even part, whatever it asks for. Plans that run at once have
        more time each: it passes for all of them together. A plan that goes on gets its part beyond what it `used`.
        """
        even = _beyond(used, self._part(self._left(), 1 / (self.plans * self.rounds)))
        if plan.budget_share is None:
            return even
        own = self._part(self.whole, plan.budget_share)
        return _least(own, even) if plan.source == "model" else own

    def _left(self) -> FallbackTrigger:
        return replace(
            self.whole,
            max_llm_calls=self.left.llm_calls,
            max_duration=math.inf if self.left.seconds is None else self.left.seconds,
            max_tokens=self.left.tokens,
            max_cost_usd=self.left.cost_usd,
        )

    def _part(self, limits: FallbackTrigger, share: float) -> FallbackTrigger:
        calls = limits.max_llm_calls * min(1.0, share * (2 if self.more_calls else 1))
        return replace(
            limits,
            max_llm_calls=math.ceil(calls - 1e-9),
            max_duration=limits.max_duration * min(1.0, share * self.parallel),
            max_tokens=None if limits.max_tokens is None else math.ceil(limits.max_tokens * share),
            max_cost_usd=None if limits.max_cost_usd is None else limits.max_cost_usd * share,
        )


def _beyond(used: Usage, part: FallbackTrigger) -> FallbackTrigger:
    return replace(
        part,
        max_llm_calls=part.max_llm_calls + used.llm_calls,
        max_duration=part.max_duration + used.seconds,
        max_tokens=None if part.max_tokens is None else part.max_tokens + used.tokens,
        max_cost_usd=None if part.max_cost_usd is None else part.max_cost_usd + (used.cost_usd or 0.0),
    )


def _least(one: FallbackTrigger, other: FallbackTrigger) -> FallbackTrigger:
    names = ("max_llm_calls", "max_duration", "max_tokens", "max_cost_usd")
    limits: dict[str, Any] = {}
    for name in names:
        pair = getattr(one, name), getattr(other, name)
        limits[name] = None if None in pair else min(pair)
    return replace(one, **limits)
