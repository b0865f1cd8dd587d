"""`PlanLoop`: a run of a task with plans. Plans are made, compared, run and judged until one is accepted or all fail.

The steps are in `planner` (candidate sets), `trial` (running and judging), `escalation` and `operator`. Every decision
is written to `logs`, from which a loop can be resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ..budgets import BudgetExceeded, Ledger
from ..events import EscalationAnswered, OperatorAwaited, PlanAnswered, PlanEscalated, RunEnded, RunInterrupted
from ..models.cache import run_scope
from ..models.client import ModelError
from ..repl import event_data
from ..repl.config import RunConfig
from ..repl.replay import RecordedRun
from ..results import ExecutionResult, Failed, FailureCause, Submitted, from_dict
from ..signatures import InvalidOutputs
from . import resume
from .context import LoopContext
from .escalation import NEW_PLANS, REVIEW
from .json_log import JsonEntry, JsonLogError
from .operator import OperatorAnswer, notify
from .plan import CandidateSet, Plan, Rejection, best
from .planner import Adjustment, Planner
from .proposals import NoPlans
from .settings import ALERT, REGENERATE, PlanSettings
from .trial import Accepted, BudgetShares, Trial


class PlanLoop:
    """One loop of plans."""

    def __init__(
        self,
        config: RunConfig,
        inputs: Mapping[str, Any],
        settings: PlanSettings,
        *,
        past: RecordedRun | None = None,
        loop_id: str | None = None,
        ledger: Ledger | None = None,
        parent: str | None = None,
    ) -> None:
        """Raise `InvalidInputs` before anything is started.

        With the `past` of an earlier run, its loop is resumed from logs and traces: rejected plans stay rejected, an
        interrupted plan is resumed, and an operator's answer counts. With `loop_id` alone, it is resumed from the logs.
        `ledger` and `parent` are those of a run that this one is a part of.
        """
        recorded: dict[str, RecordedRun] = {}
        if past is not None:
            loop_id, recorded = loop_id or resume.loop_of(past.run_id), resume.recorded_plans(past.run_id)
        self.context, self.parent = LoopContext.of(config, inputs, settings, past, loop_id, ledger), parent
        self.settings, self.past = settings, past
        self.logs, self.emit = self.context.logs, self.context.emit
        self.planner = Planner(self.context)
        self.trial = Trial(self.context, recorded)
        self.escalations: list[str] = []
        self.rounds = 0

    @property
    def id(self) -> str:
        """The id of this run."""
        return self.context.run_id

    @property
    def rejections(self) -> list[Rejection]:
        """The rejections of this loop so far."""
        return self.trial.rejections

    async def run(self) -> ExecutionResult[Any]:
        """Run to the ending. The result lists the rejected plans, however it ended."""
        context = self.context
        if self.emit.active:
            values = (context.run_id, context.config, context.ledger, context.inputs, self.past)
            self.emit(event_data.run_started(*values, loop_id=context.loop_id, parent=self.parent))
        try:
            with run_scope():
                result = await self._loop()
        except ModelError as error:
            self.trial.cause = FailureCause("model", error.kind)
            result = self._failed(f"the model could not be asked for plans ({error.kind}): {error}")
        except BudgetExceeded as error:
            result = self._failed(f"nothing is left of the budget to make plans with: {error}")
        except (NoPlans, JsonLogError) as error:
            result = self._failed(str(error))
        except asyncio.CancelledError:
            self.emit(RunInterrupted(context.run_id))
            raise
        except Exception as error:  # a bug, or an error in a caller's function
            result = self._failed(f"the plans failed: {type(error).__name__}: {error}")
        result = replace(result, usage=context.ledger.usage(), run_id=context.run_id)
        if isinstance(result, Failed):
            result = replace(result, cause=self.trial.cause)
        self.emit(RunEnded(context.run_id, result))
        return result

    def partial_result(self) -> Failed:
        """Return the nearest rejected answer so far, and which plans were rejected."""
        result = replace(self._failed("the run has not ended"), cause=FailureCause("interrupted"))
        return replace(result, usage=self.context.ledger.usage(), run_id=self.id)

    async def _loop(self) -> ExecutionResult[Any]:
        sets = self.logs.sets_of(self.context.loop_id)
        self.rejections.extend(self.logs.rejections_of(self.context.loop_id))
        adjustment = Adjustment(self.settings.weights)
        if sets:
            candidates = sets[-1]
            adjustment = self.planner.adjustment_after(sets[-2], self.rejections) if len(sets) > 1 else adjustment
            self.emit(candidates.to_event(self.context.run_id, again=True))
        else:
            candidates = await self.planner.first()
        while True:
            self.rounds = candidates.round
            accepted = await self._try(candidates, adjustment)
            if accepted is not None:
                return self._accepted(accepted)
            next_step = await self._escalate(candidates)
            if not isinstance(next_step, tuple):
                return next_step
            candidates, adjustment = next_step

    async def _try(self, candidates: CandidateSet, adjustment: Adjustment) -> Accepted | None:
        done = {r.plan.plan_id for r in self.rejections if r.comparison_set_id == candidates.comparison_set_id}
        untried = [candidate for candidate in candidates.candidates if candidate.plan.plan_id not in done]
        rounds = 1
        if self.settings.fallback.enabled and self.settings.fallback.strategy == REGENERATE:
            rounds += max(0, self.settings.fallback.rounds + 1 - candidates.round)
        parallel, more_calls = self.settings.parallel, adjustment.more_calls
        shares = BudgetShares.of(self.context.ledger, len(untried), rounds, parallel, more_calls)
        return await self.trial.first_acceptable(candidates, untried, shares)

    async def _escalate(self, candidates: CandidateSet) -> ExecutionResult[Any] | tuple[CandidateSet, Adjustment]:
        """Handle the rejection of all plans of a set: return a new set, an approved answer, or a failure."""
        fallback, loop_id = self.settings.fallback, self.context.loop_id
        used_up = self.context.used_up()
        regenerate = fallback.strategy == REGENERATE and candidates.round <= fallback.rounds and used_up is None
        config = replace(fallback, strategy=REGENERATE if regenerate else ALERT)
        detector = self.logs.detector(config, self._fallback)
        entry = await asyncio.to_thread(detector.check_for_escalation, loop_id)
        resumed = entry is None
        entry = entry or detector.escalation_of(loop_id)
        if entry is None:
            raise JsonLogError(self.logs.escalations.path, "the rejections of this loop are no longer in its logs")
        self.escalations.append(entry["log_entry_id"])
        if not resumed:
            self._emit_escalation(entry)
        if not fallback.enabled:
            return self._failed(f"{entry['escalation_reason']} No fallback is configured.")
        if resumed and not regenerate and entry["recommended_action"] != REVIEW:
            entry = detector.hand_to_operator(
                entry, f"No new plans are made: {used_up or 'the settings allow no more rounds'}."
            )
        if resumed and not entry.get("fallback_triggered"):  # the run that logged it was killed in between
            entry = await asyncio.to_thread(detector.trigger_fallback, entry)
        if entry["recommended_action"] != REVIEW:
            try:
                return await self.planner.again(candidates, self.rejections, None)
            except (NoPlans, ModelError, BudgetExceeded) as error:
                entry = detector.hand_to_operator(entry, f"No new plans could be made: {error}.")
                entry = await asyncio.to_thread(detector.trigger_fallback, entry)
                self._emit_escalation(entry)
        return await self._ask_operator(candidates, entry)

    async def _ask_operator(
        self, candidates: CandidateSet, entry: JsonEntry
    ) -> ExecutionResult[Any] | tuple[CandidateSet, Adjustment]:
        answer = await self._answer_to(entry)
        self.emit(EscalationAnswered(self.context.run_id, **asdict(answer)))
        match answer.answer:
            case "approve":
                return self._approved(answer)
            case "retry":
                return await self.planner.again(candidates, self.rejections, answer.note)
        entry_id = entry["log_entry_id"] + (f" --logs {self.logs.folder}" if self.settings.logs is not None else "")
        if answer.answered_by == "operator":
            return self._failed(
                f"{entry['escalation_reason']} An operator rejected them, too. {answer.note or ''}".strip()
            )
        return self._failed(
            f"{entry['escalation_reason']} No operator has answered yet. "
            f"To answer: rlm escalations show {entry_id}; then `rlm resume {self.context.run_id}` continues."
        )

    async def _answer_to(self, entry: JsonEntry) -> OperatorAnswer:
        """Return the operator's answer, or the default after the timeout. Waiting does not count as time of the run."""
        operator, answers = self.settings.operator, self.logs.answers
        if operator.timeout:
            values = (entry["log_entry_id"], operator.timeout, operator.default, str(self.logs.folder))
            self.emit(OperatorAwaited(self.context.run_id, *values))
        loop = asyncio.get_running_loop()
        start = loop.time()
        answer = await answers.wait(entry["log_entry_id"], operator.timeout)
        self.context.ledger.excuse(loop.time() - start)
        if answer is not None:
            return answer
        return answers.add(OperatorAnswer(entry["log_entry_id"], operator.default, answered_by="timeout"))

    def _emit_escalation(self, entry: JsonEntry) -> None:
        values = (entry["log_entry_id"], entry["escalation_reason"], entry.get("fallback_details"))
        self.emit(PlanEscalated(self.context.run_id, *values, dict(entry)))

    def _fallback(self, entry: JsonEntry) -> str:
        """Perform the fallback and return its description. New plans are made by the caller."""
        if entry["recommended_action"] != REVIEW:
            return NEW_PLANS
        latest = [r for r in self.rejections if r.comparison_set_id == entry["comparison_set_id"]]
        return notify(self.settings.operator, entry, latest, self.logs.folder)

    def _accepted(self, accepted: Accepted) -> ExecutionResult[Any]:
        result = accepted.result
        return replace(result, plan=self._emit_answer(accepted.candidate.plan, result.run_id, "thresholds"))

    def _approved(self, answer: OperatorAnswer) -> ExecutionResult[Any]:
        """Return the rejected answer that an operator or the default approves, or the operator's own."""
        if answer.outputs is not None:
            return self._own_answer(answer)
        chosen = best(r for r in self.rejections if answer.plan_id in (None, r.plan.plan_id))
        if chosen is None:
            return self._failed("An answer was approved, but no rejected plan has one that fits the signature.")
        assert chosen.result is not None
        result = from_dict({"history": [], **chosen.result}, self.context.config.signature)
        return replace(result, plan=self._emit_answer(chosen.plan, chosen.run_id, answer.answered_by))

    def _own_answer(self, answer: OperatorAnswer) -> ExecutionResult[Any]:
        try:
            outputs = self.context.config.signature.outputs_from_json(answer.outputs or {})
        except InvalidOutputs as error:
            return self._failed(f"The operator's answer does not fit the signature: {error}")
        summary = self._emit_answer(None, "", answer.answered_by)
        return Submitted(outputs, 0, self.context.ledger.usage().llm_calls, plan=summary)

    def _emit_answer(self, plan: Plan | None, run_id: str, accepted_by: str) -> dict[str, Any]:
        summary = self._summary(plan, run_id, accepted_by)
        self.emit(PlanAnswered(self.context.run_id, summary["name"], summary["accepted_by"], summary))
        return summary

    def _failed(self, reason: str) -> Failed:
        nearest = best(self.rejections)
        partial = [(rejection.result or {}).get("partial_outputs") for rejection in self.rejections]
        last = next((outputs for outputs in reversed(partial) if outputs is not None), None)
        return Failed(reason, nearest.answer if nearest is not None else last, plan=self._summary(None, "", None))

    def _summary(self, plan: Plan | None, run_id: str, accepted_by: str | None) -> dict[str, Any]:
        """Return the accepted plan and the rejections, for the result."""
        return {
            "loop_id": self.context.loop_id,
            "plan_id": plan.plan_id if plan is not None else None,
            "name": plan.name if plan is not None else None,
            "approach": plan.approach if plan is not None else None,
            "run_id": run_id or None,
            "accepted_by": accepted_by,
            "rounds": self.rounds,
            "rejected": [
                {
                    "plan_id": rejection.plan.plan_id,
                    "name": rejection.plan.name,
                    "round": rejection.round,
                    "run_id": rejection.run_id or None,
                    "failed_thresholds": [asdict(threshold) for threshold in rejection.failed],
                }
                for rejection in self.rejections
            ],
            "escalations": list(self.escalations),
        }
