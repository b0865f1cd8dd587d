"""`AgreementLoop`: independent runs of one task, until a value has the agreement of most, or the runs are used up.

The runs do not see each other: each has its own conversation and session over the same sealed inputs, another
temperature and another way of going about the task. They share one budget. The first round is as many runs as can
decide by themselves; then one by one.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from string import Template
from typing import Any

import sandbox
from sandbox.data import SMALL_BYTES

from ..budgets import FallbackTrigger, Ledger, Usage
from ..calibration.calibrator import without_rule
from ..events import Emitter, RunEnded, RunInterrupted
from ..json_values import pointer
from ..models.cache import run_scope
from ..models.profile import profile_of
from ..repl import event_data, trust
from ..repl.config import RunConfig
from ..repl.loop import RunLoop
from ..repl.output_checks import output_check
from ..repl.replay import RecordedRun
from ..results import Evidence, ExecutionResult, Extracted, Failed, FailureCause, Submitted
from ..signatures import InvalidOutputs
from ..text import cut_middle
from .settings import AgreementSettings
from .vote import MISSING, Tally, Vote, first_difference, same_answer, tally

_MAX_PROGRAM_CHARS = 4_000

MakeLoop = Callable[..., Any]
"""Makes one run: from a configuration and inputs, with `ledger`, `past` and `parent`."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of an earlier, interrupted loop: its result if it had ended, or else its iterations."""

    result: ExecutionResult[Any] | None = None
    past: RecordedRun | None = None


class AgreementLoop:
    """The runs of one task, and what they agree on."""

    def __init__(
        self,
        config: RunConfig,
        inputs: Mapping[str, Any],
        settings: AgreementSettings,
        *,
        past: RecordedRun | None = None,
        make: MakeLoop = RunLoop,
    ) -> None:
        """Check the inputs; nothing is started. With the `past` of an earlier loop, its runs are resumed.

        `make` makes each run: `RunLoop`, or the loop of a run with plans.
        """
        self.id = uuid.uuid4().hex[:12]
        self.inputs = config.check_inputs(inputs)
        large = {name: value for name, value in self.inputs.items() if _is_large(value)}
        # Sealed once, so that all runs read the same memory.
        self.config = replace(config, sealed={name: sandbox.Text(value) for name, value in large.items()})
        self.settings, self.past, self.make = settings, past, make
        self.script = profile_of(config.main_model).constrains
        self.ledger = Ledger(config.trigger, spent=past.usage if past is not None else None)
        self.emit = Emitter(self.id, config.observe)
        self.results: dict[int, ExecutionResult[Any]] = {}
        self.recorded: Mapping[int, Recorded] = {}
        if past is not None:
            from .resume import recorded_runs

            self.recorded = recorded_runs(past.run_id, config.signature)

    async def run(self) -> ExecutionResult[Any]:
        """Run to the ending: the result that most runs agree on, with the dissent."""
        if self.emit.active:
            self.emit(
                event_data.run_started(self.id, self.config, self.ledger, self.inputs, self.past, loop_id=self.id)
            )
        try:
            with run_scope():
                result = await self._agree()
        except asyncio.CancelledError:
            self.emit(RunInterrupted(self.id))
            raise
        except Exception as error:  # a bug, or an error in a caller's function
            cause = FailureCause("fault", type(error).__name__)
            result = Failed(f"the comparison of runs failed: {type(error).__name__}: {error}", cause=cause)
        result = replace(result, usage=self.ledger.usage(), run_id=self.id)
        self.emit(RunEnded(self.id, result))
        return result

    def partial_result(self) -> Failed:
        """Return what the runs that have ended agree on, as `Failed`."""
        cause = FailureCause("interrupted")
        about: dict[str, Any] = {"usage": self.ledger.usage(), "run_id": self.id, "cause": cause}
        reason = f"the run has not ended; runs that have: {len(self.results)} of {self.settings.runs}"
        answers = self._answers()
        return Failed(reason, _plain(tally(answers).outputs()) if answers else None, **about)

    async def _agree(self) -> ExecutionResult[Any]:
        await self._start(range(self.settings.first_round))
        for number in range(self.settings.first_round, self.settings.runs):
            if tally(self._answers()).is_decided(self.settings.runs - number) or self._used_up():
                break
            await self._start([number])
        votes = tally(self._answers())
        reconciled = None
        if self.settings.reconcile and len(self._answers()) > 1 and votes.agree < votes.answers and not self._used_up():
            reconciled = await self._reconcile(votes)
        return await self._result(votes, reconciled)

    async def _start(self, numbers: Any) -> None:
        """Run some of the runs at once."""
        wanted = list(numbers)
        left = max(1, self.settings.runs - len(self.results)) + self.settings.reconcile
        share = self._share(left)
        ways = {number: self.settings.guidance(number, script=self.script) for number in wanted}
        tasks = [asyncio.create_task(self._one(number, ways[number], share)) for number in wanted]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _one(self, number: int, guidance: str | None, share: FallbackTrigger) -> ExecutionResult[Any]:
        before = self.recorded.get(number)
        if before is not None and before.result is not None:
            self.results[number] = before.result
            return before.result
        past = before.past if before is not None else None
        used = past.usage if past is not None else Usage()
        ledger = self.ledger.child(share.plus(used), used)
        config = self._config(number, guidance)
        result: ExecutionResult[Any] = await self.make(
            config, self.inputs, ledger=ledger, past=past, parent=self.id
        ).run()
        self.results[number] = result
        if self.emit.active:
            self.emit(event_data.budget_used(self.id, self.ledger, 0))
        return result

    def _config(self, number: int, guidance: str | None) -> RunConfig:
        """Return the configuration of one run, one level deeper."""
        config = self.config
        texts = [text for text in (config.guidance, guidance) if text]
        changes: dict[str, Any] = {
            "guidance": "\n\n".join(texts) or None,
            "scorer": without_rule(config.scorer),  # the answer of all is judged, not theirs
            "depth": config.depth + 1,
            "task": {"agree": {"run": number, "of": self.settings.runs}},
            "vote": False,  # the runs vote
        }
        temperature = self.settings.temperature(number, script=self.script)
        if temperature is not None and config.main_call is not None:
            changes["main_call"] = _at_temperature(config.main_call, temperature)
        elif temperature is not None and hasattr(config.main_model, "copy"):
            changes["main_model"] = config.main_model.copy(temperature=temperature)
        return replace(config, **changes)

    def _share(self, runs: int) -> FallbackTrigger:
        """Return the limits of one run: an even part of what is left, but all of the time."""
        whole, left = self.config.trigger, self.ledger.remaining()
        return replace(
            whole,
            max_llm_calls=math.ceil(left.llm_calls / runs) if left.llm_calls is not None else whole.max_llm_calls,
            max_duration=math.inf if left.seconds is None else left.seconds,
            max_tokens=None if left.tokens is None else math.ceil(left.tokens / runs),
            max_cost_usd=None if left.cost_usd is None else left.cost_usd / runs,
        )

    def _used_up(self) -> bool:
        return self.ledger.trigger.shared_limit(self.ledger.state()) is not None

    def _answers(self) -> dict[int, Mapping[str, Any]]:
        """Return the outputs of the runs that have an answer, as plain JSON. Quotes are not compared."""
        answered = {number: result for number, result in sorted(self.results.items()) if not isinstance(result, Failed)}
        return {number: self._plain_outputs(result) for number, result in answered.items()}

    def _plain_outputs(self, result: ExecutionResult[Any]) -> dict[str, Any]:
        assert not isinstance(result, Failed)
        signature = self.config.signature
        return signature.without_quotes(signature.outputs_to_json(result.outputs))

    async def _reconcile(self, votes: Tally) -> int | None:
        """Run once more, with the programs of the two most frequent answers shown. Return the number of the run."""
        first = _representative(votes, 0)
        other = _representative(votes, 1)
        shown = [
            self._program(number)
            for number in dict.fromkeys(candidate for candidate in (first, other) if candidate is not None)
        ]
        text = files(__package__).joinpath("prompts", "reconcile.md").read_text(encoding="utf-8")
        guidance = Template(text).substitute(programs="\n\n".join(shown)).strip()
        number = self.settings.runs
        result = await self._one(number, guidance, self._share(1))
        return None if isinstance(result, Failed) else number

    def _program(self, number: int) -> str:
        result = self.results[number]
        code = "\n".join(entry.code for entry in result.history if entry.success)
        shown = cut_middle(code, _MAX_PROGRAM_CHARS)
        return f"Program {number + 1} gave {cut_middle(repr(self._plain_outputs(result)), 500)}:\n{shown}"

    async def _result(self, votes: Tally, reconciled: int | None) -> ExecutionResult[Any]:
        answered = {number: result for number, result in sorted(self.results.items()) if not isinstance(result, Failed)}
        if not answered:
            return self._without_answer()
        if reconciled is not None:
            votes = tally(self._answers())
            chosen: ExecutionResult[Any] = self.results[reconciled]
            winner = reconciled
        else:
            runs = [number for number in answered if number < self.settings.runs]
            winner = max(runs, key=lambda number: (votes.support(number), *_trust(answered[number]), -number))
            chosen = await self._composed(answered[winner], votes)
        summary = self._summary(votes, winner, reconciled is not None, chosen)
        made = len(self.results)
        chosen = trust.with_agreement(replace(chosen, agreement=summary), summary["votes"], votes.answers, made)
        return trust.judged(chosen, self.config.scorer, self.config.signature)

    def _without_answer(self) -> ExecutionResult[Any]:
        last = self.results[max(self.results)]
        assert isinstance(last, Failed)
        return replace(
            last,
            reason=f"none of {len(self.results)} runs gave an answer; the last: {last.reason}",
            agreement={"agree": 0, "answers": 0, "of": len(self.results), "votes": {}, "runs": self._runs(None, None)},
        )

    async def _composed(self, best: ExecutionResult[Any], votes: Tally) -> ExecutionResult[Any]:
        """Return the best run's result; with values of the others where most say otherwise, if the whole fits."""
        outputs = votes.outputs()
        if self.config.signature.cited:  # quotes belong to the value that they were submitted with
            return best
        if _plain(outputs) == self._plain_outputs(best) or all(vote.agree == 1 for vote in votes.votes):
            return best
        try:
            typed = self.config.signature.outputs_from_json(_plain(outputs))
        except InvalidOutputs:
            return best
        check = output_check(self.config, self.inputs)
        if check is not None and await check(_plain(outputs)) is not None:
            return best
        assert not isinstance(best, Failed)
        evidence = self._evidence(best, outputs)
        return replace(best, outputs=typed, evidence=evidence, features=self._features(best, outputs))

    def _evidence(self, best: ExecutionResult[Any], outputs: Mapping[str, Any]) -> tuple[Evidence, ...]:
        """Return the evidence of the best run; of another run, for a field whose value is that run's."""
        answers, own, evidence = self._answers(), self._plain_outputs(best), list(best.evidence)
        for name, value in _plain(outputs).items():
            if not same_answer(own.get(name), value):
                evidence = [piece for piece in evidence if piece.field != name]
                number = next(
                    (number for number, answer in answers.items() if same_answer(answer.get(name), value)), None
                )
                evidence += self._evidence_of(name, None if number is None else self.results[number])
        return tuple(evidence)

    def _features(self, best: ExecutionResult[Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the features of the best run; of another run, for a field whose value is that run's."""
        assert not isinstance(best, Failed)
        answers, features = self._answers(), {}
        for name, value in _plain(outputs).items():
            runs = [self.results[number] for number, answer in answers.items() if same_answer(answer.get(name), value)]
            features[name] = getattr(best if best in runs or not runs else runs[0], "features", {}).get(name, {})
        return features

    @staticmethod
    def _evidence_of(name: str, result: ExecutionResult[Any] | None) -> list[Evidence]:
        if result is None:
            return [Evidence(pointer((name,)), "none", note="put together from the answers of several runs")]
        pieces = [piece for piece in result.evidence if piece.field == name]
        return [
            replace(piece, note="; ".join(filter(None, [f"in run {result.run_id}", piece.note]))) for piece in pieces
        ]

    def _summary(self, votes: Tally, winner: int, is_reconciled: bool, chosen: ExecutionResult[Any]) -> dict[str, Any]:
        """Return the agreement and the dissent, for the result."""
        final = self._plain_outputs(chosen)
        counts = {pointer(vote.path): _count(vote, final) for vote in votes.votes}
        return {
            "agree": min(counts.values(), default=0),
            "answers": votes.answers,
            "of": len(self.results),
            "votes": counts,
            "run_id": self.results[winner].run_id,
            "reconciled": is_reconciled,
            "runs": self._runs(winner, final),
        }

    def _runs(self, winner: int | None, final: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        runs = []
        code = {
            number: [(entry.iteration, entry.code) for entry in one.history] for number, one in self.results.items()
        }
        for number, result in sorted(self.results.items()):
            outputs = None if isinstance(result, Failed) else self._plain_outputs(result)
            about: dict[str, Any] = {"run_id": result.run_id, "ending": result.status, "outputs": outputs}
            if isinstance(result, Failed):
                about["reason"] = result.reason
            elif final is not None and winner is not None:
                differs = [name for name, value in final.items() if not same_answer(value, outputs.get(name))]  # type: ignore[union-attr]
                if differs:
                    about["differs"] = differs
                    about["first_difference"] = first_difference(code[number], code[winner])
            runs.append(about)
        return runs


def _count(vote: Vote, final: Mapping[str, Any]) -> int:
    """Return how many runs gave the value that is in the answer."""
    value: Any = final
    for step in vote.path:
        value = value.get(step, MISSING) if isinstance(value, Mapping) else MISSING
    return next((len(runs) for other, runs in vote.groups if same_answer(other, value)), 0)


def _representative(votes: Tally, rank: int) -> int | None:
    """Return the first run that gave the answer of this rank to the question that is disputed most."""
    vote = min(votes.votes, key=lambda vote: vote.agree)
    return vote.groups[rank][1][0] if rank < len(vote.groups) else None


def _trust(result: ExecutionResult[Any]) -> tuple[int, float]:
    """Of runs that agree alike, one that submitted is taken before one whose outputs were extracted."""
    return (int(isinstance(result, Submitted)), result.confidence if isinstance(result, Extracted) else 1.0)


def _plain(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in outputs.items() if value is not MISSING}


def _at_temperature(call: Callable[..., Any], temperature: float) -> Callable[..., Any]:
    """Return a call of the main model with a temperature."""

    async def asked(conversation: Any, settings: Mapping[str, Any], adapter: Any) -> Any:
        return await call(conversation, {**settings, "temperature": temperature}, adapter)

    return asked


def _is_large(value: Any) -> bool:
    return isinstance(value, str) and len(value) > SMALL_BYTES // 4
