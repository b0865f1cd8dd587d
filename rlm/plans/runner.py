"""One loop: a run of a task with plans. Plans are made, compared, run and judged until one answers or nobody will.

This is the whole flow. Every step of it is one room away: `making` (candidates), `trying` (running and judging),
`escalation`, `answers`; all that is decided goes to `plan_logs`, from where a loop can be taken up again (`going_on`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ..budgets import BudgetExceeded
from ..events import EscalationAnswered, OperatorAwaited, PlanAnswered, PlanEscalated, RunEnded, RunInterrupted
from ..models.cache import one_run
from ..models.client import ModelError
from ..repl import event_data
from ..repl.config import RunConfig
from ..repl.replay import RecordedRun
from ..results import ExecutionResult, Failed, FailureCause, Submitted, from_dict
from ..signatures import InvalidOutputs
from . import resume
from .adjustment import Adjustment
from .alerts import alert
from .context import Context
from .escalation import ALERT, MAKING_PLANS, REGENERATE, REVIEW
from .json_log import Entry, JsonLogError
from .operator import OperatorAnswer
from .plan import CandidateSet, Plan, Rejection, best
from .planner import PlanMaker
from .proposals import NoPlans
from .settings import PlanSettings
from .shares import Shares
from .trial import Accepted, Trial


class PlanLoop:
    """The state of one loop."""

    def __init__(
        self,
        config: RunConfig,
        inputs: Mapping[str, Any],
        settings: PlanSettings,
        *,
        past: RecordedRun | None = None,
        loop_id: str | None = None,
    ) -> None:
        """Raise `InvalidInputs` before anything is started.

        With the `past` of an earlier run, its loop is resumed from logs and trace: rejected plans stay rejected, a plan
        that was under way goes on where it was, and an operator's answer counts. With `loop_id` alone, from its logs.
        """
        begun: dict[str, RecordedRun] = {}
        if past is not None:
            loop_id, begun = loop_id or resume.loop_of(past.run_id), resume.begun(past.run_id)
        self.context = Context.of(config, inputs, settings, past, loop_id)
        self.settings, self.past = settings, past
        self.logs, self.emit = self.context.logs, self.context.emit
        self.maker = PlanMaker(self.context)
        self.trial = Trial(self.context, begun)
        self.escalations: list[str] = []
        self.rounds = 0

    @property
    def id(self) -> str:
        """The id of this run."""
        return self.context.run_id

    @property
    def rejections(self) -> list[Rejection]:
        """What was rejected in this loop so far."""
        return self.trial.rejections

    async def run(self) -> ExecutionResult[Any]:
        """Run to the ending. Whatever happens, the result says what was tried and rejected."""
        context = self.context
        if self.emit.active:
            about = (context.run_id, context.driver, context.ledger, context.inputs, self.past)
            self.emit(event_data.run_started(*about, loop_id=context.loop_id))
        try:
            with one_run():
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
        except Exception as error:  # a fault of ours, or of a caller's function: what was tried is kept all the same
            result = self._failed(f"the plans broke off: {type(error).__name__}: {error}")
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
            adjustment = self.maker.after(sets[-2], self.rejections) if len(sets) > 1 else adjustment
            self.emit(candidates.to_event(self.context.run_id, again=True))
        else:
            candidates = await self.maker.first()
        while True:
            self.rounds = candidates.round
            accepted = await self._try(candidates, adjustment)
            if accepted is not None:
                return self._answered(accepted)
            following = await self._escalate(candidates)
            if not isinstance(following, tuple):
                return following
            candidates, adjustment = following

    # Running and judging them ----------------------------------------------------------------------------------------

    async def _try(self, candidates: CandidateSet, adjustment: Adjustment) -> Accepted | None:
        done = {one.plan.plan_id for one in self.rejections if one.comparison_set_id == candidates.comparison_set_id}
        waiting = [one for one in candidates.candidates if one.plan.plan_id not in done]
        rounds = 1
        if self.settings.fallback.enabled and self.settings.fallback.strategy == REGENERATE:
            rounds += max(0, self.settings.fallback.rounds + 1 - candidates.round)
        shares = Shares.of(self.context.ledger, len(waiting), rounds, self.settings.parallel, adjustment.more_calls)
        return await self.trial.first_acceptable(candidates, waiting, shares)

    # When all are rejected -------------------------------------------------------------------------------------------

    async def _escalate(self, candidates: CandidateSet) -> ExecutionResult[Any] | tuple[CandidateSet, Adjustment]:
        """What follows when every plan of a set was rejected: other plans, an approved answer, or a failure."""
        fallback, loop_id = self.settings.fallback, self.context.loop_id
        used_up = self.context.used_up()
        again = fallback.strategy == REGENERATE and candidates.round <= fallback.rounds and used_up is None
        config = replace(fallback, strategy=REGENERATE if again else ALERT)
        detector = self.logs.detector(config, self._fallback)
        entry = await asyncio.to_thread(detector.check_for_escalation, loop_id)
        known = entry is None
        entry = entry or detector.escalation_of(loop_id)
        if entry is None:
            raise JsonLogError(self.logs.escalations.path, "the rejections of this loop are no longer in its logs")
        self.escalations.append(entry["log_entry_id"])
        if not known:
            self._escalated(entry)
        if not fallback.enabled:
            return self._failed(f"{entry['escalation_reason']} No fallback is configured.")
        if known and not again and entry["recommended_action"] != REVIEW:
            entry = detector.hand_to_operator(entry, f"No new plans are made: {used_up or 'none are wanted any more'}.")
        if known and not entry.get("fallback_triggered"):  # whoever logged it was stopped before it came to that
            entry = await asyncio.to_thread(detector.trigger_fallback, entry)
        if entry["recommended_action"] != REVIEW:
            try:
                return await self.maker.again(candidates, self.rejections, None)
            except (NoPlans, ModelError, BudgetExceeded) as error:
                entry = detector.hand_to_operator(entry, f"No new plans could be made: {error}.")
                entry = await asyncio.to_thread(detector.trigger_fallback, entry)
                self._escalated(entry)
        return await self._ask_operator(candidates, entry)

    async def _ask_operator(
        self, candidates: CandidateSet, entry: Entry
    ) -> ExecutionResult[Any] | tuple[CandidateSet, Adjustment]:
        answer = await self._answer_to(entry)
        self.emit(EscalationAnswered(self.context.run_id, **asdict(answer)))
        match answer.answer:
            case "approve":
                return self._approved(answer)
            case "retry":
                return await self.maker.again(candidates, self.rejections, answer.note)
        shown = entry["log_entry_id"] + (f" --logs {self.logs.folder}" if self.settings.logs is not None else "")
        if answer.answered_by == "operator":
            return self._failed(
                f"{entry['escalation_reason']} An operator rejected them, too. {answer.note or ''}".strip()
            )
        return self._failed(
            f"{entry['escalation_reason']} No operator has answered yet. "
            f"To answer: rlm escalations show {shown}; then rlm resume {self.context.run_id} goes on."
        )

    async def _answer_to(self, entry: Entry) -> OperatorAnswer:
        """The operator's answer, or the default when it does not come in time. Waiting costs no time of the budget."""
        operator, answers = self.settings.operator, self.logs.answers
        if operator.timeout:
            about = (entry["log_entry_id"], operator.timeout, operator.default, str(self.logs.folder))
            self.emit(OperatorAwaited(self.context.run_id, *about))
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await answers.wait(entry["log_entry_id"], operator.timeout)
        self.context.ledger.excuse(loop.time() - began)
        if answer is not None:
            return answer
        return answers.give(OperatorAnswer(entry["log_entry_id"], operator.default, answered_by="timeout"))

    def _escalated(self, entry: Entry) -> None:
        about = (entry["log_entry_id"], entry["escalation_reason"], entry.get("fallback_details"))
        self.emit(PlanEscalated(self.context.run_id, *about, dict(entry)))

    def _fallback(self, entry: Entry) -> str:
        """What is done when plans were escalated, in words. New plans are made later, by whoever asked for this."""
        if entry["recommended_action"] != REVIEW:
            return MAKING_PLANS
        latest = [one for one in self.rejections if one.comparison_set_id == entry["comparison_set_id"]]
        return alert(self.settings.operator, entry, latest, self.logs.folder)

    # Endings ---------------------------------------------------------------------------------------------------------

    def _answered(self, accepted: Accepted) -> ExecutionResult[Any]:
        one, result = accepted.candidate, accepted.result
        told = self._about(one.plan, result.run_id, "thresholds")
        self.emit(PlanAnswered(self.context.run_id, told["name"], told["accepted_by"], told))
        return replace(result, plan=told)

    def _approved(self, answer: OperatorAnswer) -> ExecutionResult[Any]:
        """The rejected answer that an operator, or the default, lets pass; or the operator's own."""
        if answer.outputs is not None:
            return self._of_operator(answer)
        chosen = best(one for one in self.rejections if answer.plan_id in (None, one.plan.plan_id))
        if chosen is None:
            return self._failed("An answer was approved, but no rejected plan has given one that fits the signature.")
        assert chosen.result is not None
        told = self._about(chosen.plan, chosen.run_id, answer.answered_by)
        self.emit(PlanAnswered(self.context.run_id, told["name"], told["accepted_by"], told))
        return replace(from_dict({"history": [], **chosen.result}, self.context.driver.signature), plan=told)

    def _of_operator(self, answer: OperatorAnswer) -> ExecutionResult[Any]:
        try:
            outputs = self.context.driver.signature.outputs_from_json(answer.outputs or {})
        except InvalidOutputs as error:
            return self._failed(f"The operator's answer does not fit the signature: {error}")
        told = self._about(None, "", answer.answered_by)
        self.emit(PlanAnswered(self.context.run_id, told["name"], told["accepted_by"], told))
        return Submitted(outputs, 0, self.context.ledger.usage().llm_calls, plan=told)

    def _failed(self, reason: str) -> Failed:
        nearest = best(self.rejections)
        partial = [(one.result or {}).get("partial_outputs") for one in self.rejections]
        left = next((one for one in reversed(partial) if one is not None), None)
        return Failed(reason, nearest.answer if nearest is not None else left, plan=self._about(None, "", None))

    def _about(self, plan: Plan | None, run_id: str, accepted_by: str | None) -> dict[str, Any]:
        """Which plan answered and what was rejected, for the result."""
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
                    "plan_id": one.plan.plan_id,
                    "name": one.plan.name,
                    "round": one.round,
                    "run_id": one.run_id or None,
                    "failed_thresholds": [asdict(each) for each in one.failed],
                }
                for one in self.rejections
            ],
            "escalations": list(self.escalations),
        }
