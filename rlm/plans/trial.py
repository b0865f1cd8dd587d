"""The trial of a set of plans, best first: each runs within its share of the budget, and is accepted or rejected."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..budgets import FallbackTrigger, Ledger, Remaining, Usage
from ..events import FailedThreshold, PlanRejected, PlanSelected
from ..repl import event_data
from ..repl.config import RunConfig
from ..repl.replay import RecordedRun
from ..results import ExecutionResult, Failed, FailureCause
from .context import LoopContext
from .governance import judge
from .plan import Candidate, CandidateSet, Plan, Rejection

_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class BudgetShares:
    """The budget of one round of plans, and its division among them."""

    whole: FallbackTrigger
    """The limits of the task."""

    left: Remaining
    """What was left of them when the round started."""

    plans: int
    """The number of plans in the round."""

    rounds: int
    """The number of possible rounds, this one included, among which what is left is divided."""

    parallel: int = 1
    more_calls: bool = False
    """Whether the plans may make twice as many calls of smaller models as their part allows."""

    @classmethod
    def of(cls, ledger: Ledger, plans: int, rounds: int, parallel: int, more_calls: bool) -> BudgetShares:
        """Return the shares of a round that starts now."""
        return cls(ledger.trigger, ledger.remaining(), max(1, plans), max(1, rounds), parallel, more_calls)

    def of_plan(self, plan: Plan, used: Usage = _NO_USAGE) -> FallbackTrigger:
        """Return the limits of a plan: its `budget_share` of the whole budget, or an even part of what is left.

        A plan of the model gets at most an even part, whatever it asks for. Plans that run at once have more time each,
        as they share it. A resumed plan gets its part in addition to what it `used`.
        """
        even = self._part(self._left(), 1 / (self.plans * self.rounds)).plus(used)
        if plan.budget_share is None:
            return even
        own = self._part(self.whole, plan.budget_share)
        return _minimum(own, even) if plan.source == "model" else own

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


@dataclass(frozen=True, slots=True)
class Accepted:
    """A plan whose answer meets every threshold, with its result."""

    candidate: Candidate
    result: ExecutionResult[Any]


@dataclass
class Trial:
    """Runs and judges the plans of one loop; logs and reports rejections."""

    context: LoopContext
    recorded: Mapping[str, RecordedRun] = field(default_factory=dict)
    """The recorded runs of plans that were interrupted, by plan id: they are resumed."""

    rejections: list[Rejection] = field(default_factory=list)
    cause: FailureCause | None = None
    """The cause of the last run that failed by an error."""

    async def first_acceptable(
        self, candidates: CandidateSet, untried: Sequence[Candidate], shares: BudgetShares
    ) -> Accepted | None:
        """Return the best plan whose answer is acceptable; None if all are rejected.

        Up to `parallel` plans run at once. An accepted plan waits for better ones that are still running; worse ones
        are cancelled.
        """
        parallel = self.context.settings.parallel
        queue, running = list(untried), dict[asyncio.Task[Accepted | None], Candidate]()
        winner: Accepted | None = None
        try:
            while True:
                while queue and winner is None and len(running) < parallel:
                    candidate = queue.pop(0)
                    running[asyncio.create_task(self._attempt(candidates, candidate, shares))] = candidate
                if not running:
                    return winner
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    candidate, accepted = running.pop(task), task.result()
                    if accepted is not None and (winner is None or candidate.rank < winner.candidate.rank):
                        winner = accepted
                if winner is not None:
                    worse = [task for task, candidate in running.items() if candidate.rank > winner.candidate.rank]
                    await _cancel(worse)
                    for task in worse:  # a better plan may have ended meanwhile; the next iteration handles it
                        del running[task]
        finally:
            await _cancel(list(running))

    async def _attempt(self, candidates: CandidateSet, candidate: Candidate, shares: BudgetShares) -> Accepted | None:
        """Run and judge one plan."""
        context, plan = self.context, candidate.plan
        if (reason := context.used_up()) is not None:
            exhausted = FailedThreshold("budget_left", "something left", str(reason))
            await self._reject(candidates, candidate, (exhausted,), None)
            return None
        recorded = self.recorded.get(plan.plan_id)
        used = recorded.usage if recorded is not None else Usage()
        share = shares.of_plan(plan, used)
        await asyncio.to_thread(context.logs.add_selection, candidates, candidate, share)
        values = (candidates.comparison_set_id, candidate.rank, candidate.score, plan.to_dict(), share)
        context.emit(PlanSelected(context.run_id, *values))
        result = await self._config_for(plan).run(
            context.inputs, ledger=context.ledger.child(share, used), past=recorded, parent=context.run_id
        )
        if isinstance(result, Failed) and result.cause is not None:
            self.cause = result.cause
        failed = await judge(context, result, share)
        if context.emit.active:
            context.emit(event_data.budget_used(context.run_id, context.ledger, 0))
        if not failed:
            return Accepted(candidate, result)
        await self._reject(candidates, candidate, failed, result)
        return None

    async def _reject(
        self,
        candidates: CandidateSet,
        candidate: Candidate,
        failed: tuple[FailedThreshold, ...],
        result: ExecutionResult[Any] | None,
    ) -> None:
        stored = None
        if result is not None:
            stored = {name: value for name, value in result.to_dict().items() if name != "history"}
        run_id = result.run_id if result is not None else ""
        set_id = candidates.comparison_set_id
        plan, rank = candidate.plan, candidate.rank
        rejection = Rejection(candidates.loop_id, set_id, candidates.round, rank, plan, failed, run_id, stored)
        self.rejections.append(rejection)  # also if it cannot be logged: the result lists what was tried
        await asyncio.to_thread(self.context.logs.add_rejection, rejection)
        values = (set_id, plan.plan_id, plan.name, rank, run_id, list(failed))
        self.context.emit(PlanRejected(self.context.run_id, *values))

    def _config_for(self, plan: Plan) -> RunConfig:
        """Return the run configuration with a plan's guidance, model and tools, one level deeper."""
        config, models = self.context.config, self.context.models
        model = models[plan.model or "main"]
        if plan.temperature is not None:
            model = model.copy(temperature=plan.temperature)
        own = model is not config.main_model
        tools = config.tools
        if plan.tools is not None:
            tools = {name: tool for name, tool in tools.items() if name in plan.tools}
        return replace(
            config,
            main_model=model,
            sub_model=models["sub"],
            extraction_model=models["extraction"],
            main_call=None if own else config.main_call,
            tools=tools,
            guidance=plan.approach,
            depth=config.depth + 1,
            task={"plan": plan.to_dict()},
        )


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they and their kernels have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _minimum(first: FallbackTrigger, second: FallbackTrigger) -> FallbackTrigger:
    names = ("max_llm_calls", "max_duration", "max_tokens", "max_cost_usd")
    limits: dict[str, Any] = {}
    for name in names:
        pair = getattr(first, name), getattr(second, name)
        limits[name] = None if None in pair else min(pair)
    return replace(first, **limits)
