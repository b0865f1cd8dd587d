"""Trying the plans of one set, best first: each is run within its share, judged, and rejected or accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..budgets import Usage
from ..events import FailedThreshold, PlanRejected, PlanSelected
from ..repl import event_data
from ..repl.config import RunConfig
from ..repl.replay import RecordedRun
from ..results import ExecutionResult, Failed, FailureCause
from .context import Context
from .governance import judge
from .plan import Candidate, CandidateSet, Plan, Rejection
from .shares import Shares


@dataclass(frozen=True, slots=True)
class Accepted:
    """A plan whose answer meets every threshold."""

    candidate: Candidate
    result: ExecutionResult[Any]


@dataclass
class Trial:
    """Runs and judges the plans of one loop. What is rejected is logged, told and kept."""

    context: Context
    begun: Mapping[str, RecordedRun] = field(default_factory=dict)
    """Plans that were being run when the loop was stopped, by id: they go on from what is on record of them."""

    rejections: list[Rejection] = field(default_factory=list)
    cause: FailureCause | None = None
    """The cause of the last plan whose run broke off."""

    async def first_acceptable(
        self, candidates: CandidateSet, waiting: Sequence[Candidate], shares: Shares
    ) -> Accepted | None:
        """The answer of the best plan whose answer is acceptable; None when all are rejected.

        Up to `parallel` plans run at once. A plan that is accepted has to wait for the better ones that still run;
        those that are worse are cancelled at once.
        """
        parallel = self.context.settings.parallel
        queue, running = list(waiting), dict[asyncio.Task[Accepted | None], Candidate]()
        winner: Accepted | None = None
        try:
            while True:
                while queue and winner is None and len(running) < parallel:
                    one = queue.pop(0)
                    running[asyncio.create_task(self._attempt(candidates, one, shares))] = one
                if not running:
                    return winner
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    one, accepted = running.pop(task), task.result()
                    if accepted is not None and (winner is None or one.rank < winner.candidate.rank):
                        winner = accepted
                if winner is not None:
                    worse = [task for task, one in running.items() if one.rank > winner.candidate.rank]
                    await _cancel(worse)
                    for task in worse:  # a better one may have ended meanwhile: the next turn looks at it
                        del running[task]
        finally:
            await _cancel(list(running))

    async def _attempt(self, candidates: CandidateSet, one: Candidate, shares: Shares) -> Accepted | None:
        """Run and judge one plan."""
        context, plan = self.context, one.plan
        if (reason := context.used_up()) is not None:
            await self._reject(candidates, one, (FailedThreshold("budget_left", "something left", str(reason)),), None)
            return None
        before = self.begun.get(plan.plan_id)
        used = before.usage if before is not None else Usage()
        share = shares.of_plan(plan, used)
        await asyncio.to_thread(context.logs.selected, candidates, one, share)
        about = (candidates.comparison_set_id, one.rank, one.score, plan.to_dict(), share)
        context.emit(PlanSelected(context.run_id, *about))
        result = await self._driver_of(plan).run(
            context.inputs, ledger=context.ledger.child(share, used), past=before, parent=context.run_id
        )
        if isinstance(result, Failed) and result.cause is not None:
            self.cause = result.cause
        failed = await judge(context, result, share)
        if context.emit.active:
            context.emit(event_data.budget_used(context.run_id, context.ledger, 0))
        if not failed:
            return Accepted(one, result)
        await self._reject(candidates, one, failed, result)
        return None

    async def _reject(
        self,
        candidates: CandidateSet,
        one: Candidate,
        failed: tuple[FailedThreshold, ...],
        result: ExecutionResult[Any] | None,
    ) -> None:
        kept = None
        if result is not None:
            kept = {name: value for name, value in result.to_dict().items() if name != "history"}
        run_id = result.run_id if result is not None else ""
        set_id = candidates.comparison_set_id
        made = Rejection(candidates.loop_id, set_id, candidates.round, one.rank, one.plan, failed, run_id, kept)
        self.rejections.append(made)  # also when it cannot be logged: the result says what was tried
        await asyncio.to_thread(self.context.logs.rejected, made)
        about = (set_id, one.plan.plan_id, one.plan.name, one.rank, run_id, list(failed))
        self.context.emit(PlanRejected(self.context.run_id, *about))

    def _driver_of(self, plan: Plan) -> RunConfig:
        """The driver with a plan's guidance, model and tools. Its runs are children: they may nest one deeper."""
        driver, models = self.context.driver, self.context.models
        model = models[plan.model or "main"]
        if plan.temperature is not None:
            model = model.copy(temperature=plan.temperature)
        own = model is not driver.main_model
        tools = driver.tools
        if plan.tools is not None:
            tools = {name: tool for name, tool in tools.items() if name in plan.tools}
        return replace(
            driver,
            main_model=model,
            sub_model=models["sub"],
            extraction_model=models["extraction"],
            main_call=None if own else driver.main_call,
            tools=tools,
            guidance=plan.approach,
            depth=driver.depth + 1,
            task={"plan": plan.to_dict()},
        )


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are gone, kernels and all."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
