"""The loop of one run: ask the model, run its code, remember; until it submits, or a budget runs out.

This is the whole loop. What it uses is one module away: `config` (what a run is made with), `profiles` (what the model
reads), `reply` (what it wrote), `session` (where its code runs), `tools` (what its code calls), `llm` (the models),
`extraction` (the outputs of a run that did not submit), `result` (what every result carries).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import events
from ..budgets import FallbackReason, Ledger
from ..history import REPLHistory, REPLHistoryEntry
from ..models.cache import run_scope
from ..models.client import Answer, ModelError
from ..models.profile import profile_of
from ..results import ExecutionResult, Failed, Submitted
from ..signatures import Signature
from . import event_data, verification, voting
from .config import RunConfig
from .documents import DocumentTexts
from .extraction import extract_outputs
from .hints.grounding import Grounding
from .hints.rules import CellFacts, hints_for
from .host_calls import CallLog, current_call
from .input_files import hashed_files
from .llm import OutOfTime, RunModels
from .opening import given_cell
from .output_checks import output_check
from .output_files import missing_files, take_files
from .profiles import profile_for
from .provenance import ModelAnswers
from .replay import RecordedRun
from .result import complete, failure, interrupted, judge
from .session import ReplSession, helper_source, output_of
from .tools import REPEATABLE, RESERVED, DepthExceeded, ReplTools

if TYPE_CHECKING:
    from .verification import FirstAnswer


def new_run_id() -> str:
    """Return an id that no other run has."""
    return uuid.uuid4().hex[:12]


class RunLoop:
    """One run and its state."""

    def __init__(
        self,
        config: RunConfig,
        inputs: Mapping[str, Any],
        *,
        ledger: Ledger | None = None,
        past: RecordedRun | None = None,
        parent: str | None = None,
        run_id: str | None = None,
    ) -> None:
        """Check the inputs; nothing is started. With `past`, its iterations are replayed first.

        `parent` is the id of the run that this one is a part of, `run_id` the id of this one, where it is known.
        """
        self.id = run_id or new_run_id()
        self.config, self.past = config, past
        self.inputs = config.check_inputs(inputs)
        self.recorded = past.iterations if past is not None else ()
        self.ledger = ledger or Ledger(config.trigger, spent=past.usage if past is not None else None)
        self.ledger.keep_for_extraction()
        self.emit = events.Emitter(self.id, config.observe)
        self.history = REPLHistory()
        self.profile = profile_for(profile_of(config.main_model).constrains)
        unseen = {name: value for name, value in self.inputs.items() if name not in config.kernels.shown}
        self.grounding = Grounding.of(unseen, config.kernels.read, doubtful=self.profile.doubts_outputs)
        self.models = RunModels.of(config, self.ledger, self.emit, past, self.profile)
        self.texts = DocumentTexts(
            self.inputs, config, lambda: self.history.text(self.running[2] if self.running else "")
        )
        self.tools = ReplTools(
            config.signature,
            self.ledger,
            self.models,
            child_run=self._run_child if self.ledger.depth < config.depth else None,
            iterations=lambda: len(self.history),
            check=output_check(config, self.inputs, self.texts),
            inputs=self.inputs,
            texts=self.texts,
            grounding=self.grounding,
            can_ask_for_outputs=config.mode != "repl",
            max_parallel=config.max_parallel,
        )
        functions = self.tools.functions(config.tools)
        self.calls = CallLog(self.emit, REPEATABLE)
        self.answers = ModelAnswers()
        self.session = ReplSession(self.inputs, functions, self.calls, config)
        described = self.tools.described(functions)
        self.conversation = self.profile.begin(
            config, self.inputs, described, helper_source(), self.ledger.remaining(0)
        )
        self.running: tuple[int, str | None, str] | None = None  # number, reasoning and code of the present cell
        self.first: FirstAnswer | None = None  # what a second program checks
        self.ballot: voting.Ballot | None = None  # what several scripts said
        self.origin: dict[str, Any] = {"parent": parent, "parent_call": current_call.get() if parent else None}

    async def run(self) -> ExecutionResult[Any]:
        """Run to the ending. Whatever happens, the result carries the history, the usage and the id."""
        if self.emit.active:
            self.emit(event_data.run_started(self.id, self.config, self.ledger, self.inputs, self.past, **self.origin))
        try:
            with run_scope():
                async with self.session, hashed_files(self.inputs, self.past, self.emit):
                    result = await self._iterate_until_done()
        except asyncio.CancelledError:
            self.emit(events.RunInterrupted(self.id))
            raise
        except Exception as error:
            result = failure(error)
        take_files(result, self.session.written, self.emit)
        await self.texts.prepare(result)
        result = judge(complete(result, self), self)
        self.models.emit_tiers()
        self.emit(events.RunEnded(self.id, result))
        return result

    def _mentioned(self) -> str:
        return self.history.text("" if self.running is None else self.running[2])

    def partial_result(self) -> Failed:
        """Return what there is of an answer now: the history so far, and outputs that were refused."""
        return interrupted(self)

    async def _iterate_until_done(self) -> ExecutionResult[Any]:
        while (reason := self.exhausted()) is None:
            with contextlib.suppress(OutOfTime):  # then the trigger fires
                await self.iterate()
            if self.tools.submitted is not None:
                await voting.vote(self)
                if self.config.verify:
                    await verification.verify(self.tools.submitted, self)
                return Submitted(self.tools.submitted, len(self.history), self.ledger.usage().llm_calls)
        return await self._extract(reason)

    def exhausted(self) -> FallbackReason | None:
        """Return the limit that was reached; None while there is another iteration, or one on record."""
        iterations, errors = len(self.history), self.history.consecutive_errors
        reason = self.ledger.should_trigger(iterations=iterations, consecutive_errors=errors)
        return reason if iterations >= len(self.recorded) else None

    async def iterate(self) -> None:
        """Ask the main model, run its code, append to the history and the conversation."""
        number = len(self.history) + 1
        self.emit(events.IterationStarted(self.id, number))
        began = time.monotonic()
        answer = await self._ask(number)
        reply = self.profile.read(answer)
        if number > len(self.recorded):
            self.models.count_step(answer, time.monotonic() - began, success=reply.code is not None)
        if reply.code is None:
            entry = REPLHistoryEntry(number, reply.reasoning, "", "\n".join(reply.hints), False, printed_chars=0)
            observation = self.profile.observe_without_code(reply.hints, self.ledger.remaining(number))
        else:
            code = self.profile.prepare_code(reply.code, self.session.variables)
            entry, observation = await self._run_cell(number, reply.reasoning, code, reply.hints)
            if self.config.verify and self.first is None and self.tools.submitted is not None:
                observation = verification.request()
        self.history.append(entry)
        self.running = None
        self.conversation.add(answer.text, observation)
        if self.conversation.compact(list(self.history), self.session.variables):
            self.emit(events.ConversationCompacted(self.id, number, len(self.conversation.turns)))
        self.emit(events.HistoryAppended(self.id, number, entry.reasoning, list(reply.hints), observation))
        self.emit(event_data.budget_used(self.id, self.ledger, len(self.history)))

    async def _ask(self, number: int) -> Answer:
        if number > len(self.recorded) and self.config.mode != "repl":
            cell = await given_cell(self.config, self.inputs, self.models, self.history)
            if cell is not None:
                return self.models.give(cell, number)
        settings = self.profile.reply_settings(list(self.history))
        try:
            return await self.models.main(self.conversation, number, settings)
        except ModelError as error:
            compact = self.conversation.compact
            if error.kind != "context" or not compact(list(self.history), self.session.variables, force=True):
                raise
            return await self._ask(number)

    async def _run_cell(
        self, number: int, reasoning: str | None, code: str, hints: tuple[str, ...]
    ) -> tuple[REPLHistoryEntry, str]:
        self.emit(events.CellStarted(self.id, number, code))
        self.running = number, reasoning, code
        history, before = list(self.history), self.session.variables
        unread = self.grounding.start_cell(code)
        past = self.recorded[number - 1] if number <= len(self.recorded) else None
        recorded = past.output if past is not None else None
        timeout = self.ledger.seconds_left() if recorded is None else self.config.limits.cell_seconds
        result, session_hints = await self.session.run(code, timeout, number, past)
        session_hints += await missing_files(self.tools, self.session)
        self.answers.add(number, self.calls.recorded)
        output, printed_chars = output_of(result)
        if recorded is not None and recorded != output:
            self.emit(events.ReplayDiffered(self.id, number, recorded, output))
        self.emit(event_data.cell_ended(self.id, number, output, result))
        changes, variables = self.session.changes, self.session.variables
        if self.emit.active:
            self.emit(event_data.variables_changed(self.id, number, changes, variables))
        known = {"variables_before": before, "variables": variables, "history": history}
        cell = CellFacts.of(code, output, result, changes, inputs=self.inputs, unread=unread, **known)
        hints = (*hints, *session_hints, *hints_for(self.profile.rules, cell))
        observation = self.profile.observe(cell, hints, self.config.signature, self.ledger.remaining(number))
        timed = tuple(self.calls.timed)
        entry = REPLHistoryEntry(number, reasoning, code, output, result.ok, timed, changes, printed_chars)
        return entry, observation

    async def _extract(self, reason: FallbackReason) -> ExecutionResult[Any]:
        """Extract the outputs from the history and the live variables."""
        self.emit(events.TriggerFired(self.id, reason))
        variables = await self.session.last_variables()
        await self.session.close()  # host calls of a stopped cell, child runs among them, serve nobody any more
        self.ledger.release_kept()
        known = (list(self.history), variables, self.inputs, self.grounding.unread)
        return await extract_outputs(self.config, self.models, self.conversation, reason, *known)

    async def _run_child(
        self, signature: str, inputs: dict[str, Any], instructions: str | None = None, model: Any = None
    ) -> dict[str, Any]:
        """`rlm_query`: a run of its own, on the same budget."""
        child = Signature.of(signature, instructions=instructions, reserved=RESERVED)
        if self.ledger.depth + 1 > self.config.depth:
            raise DepthExceeded(f"child runs may nest {self.config.depth} deep")
        config = self.config.for_child(child, model)
        config.check_inputs(inputs)
        self.ledger.reserve_call()  # it asks models on behalf of a cell, as any call does
        result = await RunLoop(config, inputs, ledger=self.ledger.child(is_call=True), parent=self.id).run()
        if isinstance(result, Failed):
            raise RuntimeError(f"the sub-task gave no answer: {result.reason}")
        return child.outputs_to_json(result.outputs)
