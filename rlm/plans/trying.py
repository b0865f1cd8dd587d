"""Trying the plans of one set, best first: each is run within its share, judged, and rejected or accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..budgets import FallbackTrigger, Ledger
from ..repl import telling
from ..repl.driver import Driver
from ..repl.events import Event, Teller, all_of, ignore
from ..results import ExecutionResult
from .asking import LoopAsker
from .judging import judge
from .plan import Candidate, CandidateSet, FailedThreshold, Plan, Rejection, Verdict
from .plan_logs import PlanLogs
from .settings import PlanSettings
from .shares import Shares


@dataclass(frozen=True, slots=True)
class Accepted:
    """A plan whose answer meets every threshold."""

    candidate: Candidate
    result: ExecutionResult[Any]


@dataclass
class Trial:
    """Runs and judges the plans of one loop. What is rejected is logged, told and kept."""

    run_id: str
    driver: Driver
    inputs: dict[str, Any]
    models: Mapping[str, Any]
    settings: PlanSettings
    ledger: Ledger
    logs: PlanLogs
    tell: Teller
    asker: LoopAsker
    rejections: list[Rejection] = field(default_factory=list)
    cause: str | None = None
    """Why the last plan that broke off did so, as its run said: `model:key`."""

    async def first_acceptable(
        self, candidates: CandidateSet, waiting: Sequence[Candidate], shares: Shares
    ) -> Accepted | None:
        """The answer of the best plan whose answer is acceptable; None when all are rejected.

        Up to `parallel` plans run at once. A plan that is accepted has to wait for the better ones that still run;
        those that are worse are cancelled at once.
        """
        queue, running = list(waiting), dict[asyncio.Task[Accepted | None], Candidate]()
        winner: Accepted | None = None
        try:
            while True:
                while queue and winner is None and len(running) < self.settings.parallel:
                    one = queue.pop(0)
                    running[asyncio.create_task(self._attempt(candidates, one, shares.of_plan(one.plan)))] = one
                if not running:
                    return winner
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    one, accepted = running.pop(task), task.result()
                    if accepted is not None and (winner is None or one.rank < winner.candidate.rank):
                        winner = accepted
                if winner is not None:
                    await _cancel([task for task, one in running.items() if one.rank > winner.candidate.rank])
                    running = {task: one for task, one in running.items() if not task.done()}
        finally:
            await _cancel(list(running))

    async def _attempt(self, candidates: CandidateSet, one: Candidate, share: FallbackTrigger) -> Accepted | None:
        """Run and judge one plan."""
        plan = one.plan
        reason = self.ledger.trigger.shared_limit(self.ledger.state())
        if reason is not None:
            missing = FailedThreshold("budget_left", "something left", str(reason))
            await self._reject(candidates, one, Verdict(plan.plan_id, (missing,)), None)
            return None
        await asyncio.to_thread(self.logs.selected, candidates, one, share)
        about = {"comparison_set_id": candidates.comparison_set_id, "rank": one.rank, "score": one.score}
        self.tell("plan_selected", {**about, "plan": plan.to_dict(), "limits": share.to_dict()})
        result = await self._driver_of(plan).run(self.inputs, ledger=self.ledger.child(share), parent=self.run_id)
        verdict = await judge(
            plan.plan_id,
            result,
            share,
            self.settings.thresholds,
            self.driver,
            self.inputs,
            lambda prompt: self.asker.ask(self._judging_model(), prompt, "judging"),
        )
        if self.tell.heard:
            self.tell("budget", telling.budget(self.ledger, 0))
        if verdict.accepted:
            return Accepted(one, result)
        await self._reject(candidates, one, verdict, result)
        return None

    async def _reject(
        self, candidates: CandidateSet, one: Candidate, verdict: Verdict, result: ExecutionResult[Any] | None
    ) -> None:
        kept = None
        if result is not None:
            kept = {name: value for name, value in result.to_dict().items() if name != "history"}
        run_id = result.run_id if result is not None else ""
        set_id = candidates.comparison_set_id
        made = Rejection(candidates.loop_id, set_id, candidates.round, one.rank, one.plan, verdict, run_id, kept)
        await asyncio.to_thread(self.logs.rejected, made)
        self.rejections.append(made)
        failed = [asdict(each) for each in verdict.failed]
        about = {"comparison_set_id": set_id, "plan_id": one.plan.plan_id, "name": one.plan.name, "rank": one.rank}
        self.tell("plan_rejected", {**about, "run_id": run_id, "failed_thresholds": failed})

    def _driver_of(self, plan: Plan) -> Driver:
        """The driver with a plan's guidance, model and tools. Its runs are children: they may nest one deeper."""
        model = self.models[plan.model or "main"]
        if plan.temperature is not None:
            model = model.copy(temperature=plan.temperature)
        own = model is not self.driver.main_model
        tools = self.driver.tools
        if plan.tools is not None:
            tools = {name: tool for name, tool in tools.items() if name in plan.tools}
        return replace(
            self.driver,
            main_model=model,
            sub_model=self.models["sub"],
            extraction_model=self.models["extraction"],
            act=None if own else self.driver.act,
            tools=tools,
            guidance=plan.approach,
            depth=self.driver.depth + 1,
            observe=self.driver.observe if self.driver.observe is ignore else all_of(self.driver.observe, self._look),
            task=None,
        )

    def _look(self, event: Event) -> None:
        if event.kind == "run_ended" and event.data.get("cause"):
            self.cause = str(event.data["cause"])

    def _judging_model(self) -> Any:
        judge = self.settings.thresholds.judge
        return self.models[(judge.model if judge is not None else None) or "main"]


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are gone, kernels and all."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
