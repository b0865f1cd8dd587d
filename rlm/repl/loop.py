"""One run: ask the model, run its code, remember; until it submits, or a budget runs out and the outputs are extracted.

This is the whole loop. Everything that it uses is one room away: `prompt` (what the model reads), `reply` (what it
wrote), `session` (where its code runs), `tools` (what its code calls), `extraction.fallback` (when it did not finish).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sandbox

from ..budgets import FallbackReason, FallbackTrigger, Ledger
from ..events import (
    CellEnded,
    CellError,
    CellStarted,
    ConversationCompacted,
    Emitter,
    HistoryAppended,
    IterationStarted,
    Observer,
    ReplayDiffered,
    RunEnded,
    RunInterrupted,
    TiersUsed,
    TriggerFired,
    ignore,
)
from ..extraction.confidence import Scorer, score
from ..extraction.fallback import Extraction, extract_fallback
from ..extraction.prompt import MAX_CHARS, SHORTER
from ..extraction.retry import Reply
from ..history import REPLHistory, REPLHistoryEntry
from ..models.cache import one_run
from ..models.client import Answer, ModelError
from ..results import ExecutionResult, Failed, FailureCause, Submitted
from ..signatures import Signature
from . import conversation, event_data
from .hints import grounding
from .hints.missing_imports import with_imports
from .hints.samples import computed, from_a_sample
from .host_calls import CallLog, current_call
from .llm import Act, Asker, OutOfTime, excused
from .output_checks import failed_check
from .profiles import manner_of
from .replay import Past
from .reply import CUT_OFF, read_reply
from .session import Repl, helper_source
from .tools import REPEATABLE, RESERVED, DepthExceeded, ReplTools, refuse_tools

EXTRACTION_S = 60.0, 600.0
"""How long one answer of the extraction is waited for, at least and at most: twice the time of the run, in between."""


@dataclass(frozen=True)
class Driver:
    """How runs of one signature are made. It holds no state of a run: many can go on at once."""

    signature: Signature
    main_model: Any
    sub_model: Any = None
    extraction_model: Any = None
    trigger: FallbackTrigger = field(default_factory=FallbackTrigger)
    limits: sandbox.Limits = field(default_factory=sandbox.Limits)
    isolation: str = "auto"
    policy: str = "enforce"
    tools: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    depth: int = 1
    """How deep `rlm_query` may nest."""

    scorer: Scorer = score
    adapter: Any = None
    """The dspy adapter that steps, typed questions and the extraction go through: `rlm.OutlinesAdapter()`, say."""

    pool: sandbox.Pool | None = None
    observe: Observer = ignore
    act: Act | None = None
    """Asks the main model for its next reply, if not plainly: `Predict` lets dspy's predictor do it."""

    task: Mapping[str, Any] | None = None
    """Where the run comes from, for its trace: the task file, say."""

    guidance: str | None = None
    """How to go about the task, in words, where that was decided before the run: see `rlm.plans`."""

    sealed: Mapping[str, sandbox.Text] = field(default_factory=dict)
    """Large inputs that are in sealed memory already, by name. Runs of one driver share them."""

    async def run(
        self,
        inputs: Mapping[str, Any],
        *,
        ledger: Ledger | None = None,
        past: Past | None = None,
        parent: str | None = None,
    ) -> ExecutionResult[Any]:
        """One run, from its inputs to its ending. Raises `InvalidInputs` before anything is started; later, nothing.

        With a `past`, its iterations are done again first, without asking any model, and the run goes on from there.
        `parent` is the id of what the run is a part of, for its trace.
        """
        ledger = ledger or Ledger(self.trigger, spent=past.usage if past is not None else None)
        run = _Run(self, self._checked(inputs), ledger, past=past, parent=parent)
        with one_run():
            return await run.go()

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.signature.refuse_names(RESERVED)
        refuse_tools(self.tools, self.signature)
        return self.signature.plain_inputs(inputs)


class _Run:
    """The state of one run."""

    def __init__(
        self,
        driver: Driver,
        inputs: Mapping[str, Any],
        ledger: Ledger,
        *,
        past: Past | None = None,
        parent: str | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.driver = driver
        self.ledger = ledger
        self.past = past.iterations if past is not None else ()
        self.emit = Emitter(self.id, driver.observe)
        self.inputs = dict(inputs)
        self.history = REPLHistory()
        self.manner = manner_of(driver.main_model)
        self.asker = Asker(
            driver.main_model,
            driver.sub_model or driver.main_model,
            driver.extraction_model or driver.main_model,
            ledger,
            self.emit,
            act=driver.act,
            adapter=driver.adapter,
            past=past,
        )
        self.tools = ReplTools(
            driver.signature,
            ledger,
            self.asker,
            child_run=self._child if ledger.depth < driver.depth else None,
            iterations=lambda: len(self.history),
            check=self._check if driver.checks else None,
            unread=frozenset(grounding.unseen(self.inputs)),
        )
        functions = self.tools.functions(driver.tools)
        self.log = CallLog(self.emit, REPEATABLE)
        self.repl = Repl(
            {**self.inputs, **driver.sealed},
            functions,
            self.log,
            limits=driver.limits,
            isolation=driver.isolation,
            policy=driver.policy,
            pool=driver.pool,
        )
        budget = ledger.remaining(0)
        self.conversation = conversation.begin(
            driver.signature,
            self.inputs,
            functions,
            helper_source(),
            budget,
            driver.guidance,
            brief=self.manner.brief,
            known=RESERVED,
        )
        self.origin: dict[str, Any] = {
            "past": past,
            "parent": parent,
            "parent_call": current_call.get() if parent else None,
        }

    async def go(self) -> ExecutionResult[Any]:
        """Run to the end. Whatever happens, the result carries the usage, the id and what was found out."""
        if self.emit.active:
            self.emit(event_data.run_started(self.id, self.driver, self.ledger, self.inputs, **self.origin))
        try:
            async with self.repl:
                result = await self._loop()
        except ModelError as error:
            cause = FailureCause("model", error.kind)
            result = self._failed(f"the model could not be asked ({error.kind}): {error}", cause)
        except sandbox.SandboxError as error:
            cause = FailureCause("sandbox", type(error).__name__)
            result = self._failed(f"the sandbox could not go on: {error}", cause)
        except asyncio.CancelledError:
            self.emit(RunInterrupted(self.id))
            raise
        except Exception as error:  # a fault of ours, or of a tool: the run is kept all the same
            cause = FailureCause("fault", type(error).__name__)
            result = self._failed(f"the run broke off: {type(error).__name__}: {error}", cause)
        result = replace(
            result,
            iterations=len(self.history),
            history=tuple(self.history),
            usage=self.ledger.usage(),
            run_id=self.id,
        )
        if self.emit.active:
            if tiers := self.asker.tiers.by_signature:
                self.emit(TiersUsed(self.id, tiers))
            self.emit(RunEnded(self.id, result))
        return result

    async def _loop(self) -> ExecutionResult[Any]:
        while True:
            iterations = len(self.history)
            errors = self.history.consecutive_errors
            reason = self.ledger.should_trigger(iterations=iterations, consecutive_errors=errors)
            if reason is not None and iterations >= len(self.past):
                return await self._extract(reason)
            try:
                await self._iterate(iterations + 1)
            except OutOfTime:
                continue  # the trigger says so
            if self.tools.submitted is not None:
                return Submitted(self.tools.submitted, len(self.history), self.ledger.usage().llm_calls)

    async def _iterate(self, number: int) -> None:
        """Ask, run, remember, tell."""
        self.emit(IterationStarted(self.id, number))
        last = self.history[-2:]
        again = len(last) > 1 and last[0].code == last[1].code
        nothing = bool(last) and grounding.found_nothing(last[-1].output)
        self.conversation.stuck = again
        no_number = bool(last) and not last[-1].success and grounding.found_no_number(last[-1].output)
        self.conversation.opening = conversation.opening(
            self.tools.unread, repeated=again, nothing=nothing, no_number=no_number
        )
        began = time.monotonic()
        answer = await self._ask_main(number)
        step = read_reply(answer.text)
        if answer.truncated and not self.manner.brief:
            step = replace(step, remarks=(CUT_OFF, *step.remarks))
        if number > len(self.past):
            found = step.code is not None
            self.asker.count_step(answer, time.monotonic() - began, held=self.manner.brief, success=found)
        if step.code is None:
            entry = REPLHistoryEntry(number, step.reasoning, "", "\n".join(step.remarks), False)
            self.conversation.offer = ""
            told = conversation.told_without_code(step.remarks, self.ledger.remaining(number), brief=self.manner.brief)
        else:
            code = step.code
            if self.manner.brief:
                code = with_imports(code, self.repl.variables)
                before = self.history[-1].code if len(self.history) else ""
                self.tools.doubt = from_a_sample(code, before, self.repl.variables)
            entry, remarks = await self._run_cell(number, step.reasoning, code)
            if self.tools.doubt is not None and "SUBMIT" not in code:
                remarks += (self.tools.doubt,)
            told = self._told(entry, step.remarks + remarks)
        self.history.append(entry)
        self.conversation.add(answer.text, told)
        if self.conversation.compact(list(self.history), self.repl.variables):
            self.emit(ConversationCompacted(self.id, number, len(self.conversation.turns)))
        self.emit(HistoryAppended(self.id, number, entry.reasoning, list(step.remarks), told))
        self.emit(event_data.budget_used(self.id, self.ledger, len(self.history)))

    def _told(self, entry: REPLHistoryEntry, remarks: tuple[str, ...]) -> str:
        """What the model reads about its cell."""
        changed = (*entry.variables_changed.added, *entry.variables_changed.changed)
        known = self.repl.variables
        state = grounding.state_of(changed, known)
        submit = (
            grounding.next_submit(self.driver.signature, entry.output, changed, known, entry.code)
            if entry.success and not self.tools.unread and not grounding.found_nothing(entry.output)
            else None
        )
        self.conversation.offer = submit or ""
        manner, left = self.manner, self.ledger.remaining(entry.iteration)
        return conversation.told_after(
            entry.output,
            remarks,
            left,
            state=state,
            submit=submit,
            max_chars=manner.output_chars,
            brief=manner.brief,
            goal=conversation.goal_of(self.driver.signature, self.inputs),
        )

    async def _ask_main(self, number: int) -> Answer:
        try:
            return await self.asker.main(self.conversation, number)
        except ModelError as error:
            history = list(self.history)
            if error.kind != "context" or not self.conversation.compact(history, self.repl.variables, force=True):
                raise
            return await self._ask_main(number)

    async def _run_cell(
        self, number: int, reasoning: str | None, code: str
    ) -> tuple[REPLHistoryEntry, tuple[str, ...]]:
        self.emit(CellStarted(self.id, number, code))
        if self.tools.unread and grounding.names_read(code, self.inputs):
            self.tools.unread = frozenset()
        invented = grounding.own_data(code, self.repl.variables.keys() | self.inputs.keys(), self.tools.unread)
        past = self.past[number - 1] if number <= len(self.past) else None
        timeout = self.ledger.seconds_left() if past is None or past.output is None else self.driver.limits.cell_seconds
        result, remarks = await self.repl.run(code, timeout, number, past)
        output = _output(result)
        if past is not None and past.output is not None and past.output != output:
            self.emit(ReplayDiffered(self.id, number, past.output, output))
        told = (
            grounding.overwritten(code, self.inputs),
            invented,
            grounding.repeated(code, output, self.history),
            grounding.nothing_found(code, output, self.inputs),
            grounding.on_error(code, result.error.message if result.error is not None else None),
        )
        remarks += tuple(remark for remark in told if remark is not None)
        if result.value is not None and not result.text:
            remarks += ("(The last line's value is shown; next time print what you want to see.)",)
        fault = result.error
        error = None if fault is None else CellError(fault.name, fault.message, fault.line)
        limit = None if result.limit is None else str(result.limit)
        self.emit(CellEnded(self.id, number, output, result.ok, result.seconds, error, limit))
        if self.emit.active:
            self.emit(event_data.variables_changed(self.id, number, self.repl.changed, self.repl.variables))
        calls = tuple(self.log.timed)
        entry = REPLHistoryEntry(number, reasoning, code, output, result.ok, calls, self.repl.changed)
        return entry, remarks

    async def _extract(self, reason: FallbackReason) -> ExecutionResult[Any]:
        self.emit(TriggerFired(self.id, reason))

        told = [self.conversation] if self.manner.brief else []
        patience = min(max(2 * self.driver.trigger.max_duration, EXTRACTION_S[0]), EXTRACTION_S[1])

        async def agent(text: str) -> Reply:
            # A model that runs here has read all of it: it is asked in the conversation, before it reads anything anew.
            asking = self.asker.extraction(text, self.driver.signature, told.pop() if told else None)
            try:
                async with excused(asyncio.timeout(patience)):
                    answer = await asking
            except TimeoutError:
                raise ModelError("timeout", f"no answer in {patience:g} seconds") from None
            return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

        extraction = Extraction(
            agent,
            scorer=self.driver.scorer,
            on_attempt=lambda made, text: self.emit(event_data.extraction_attempted(self.id, made, text)),
            check=self._check if self.driver.checks else None,
        )
        variables = await self.repl.seen()
        if self.manner.brief:
            variables = computed(variables, (entry.code for entry in self.history))
        known = list(self.history), variables, self.inputs
        await self.repl.close()  # calls of a cell that was stopped, child runs among them, would go on for nobody
        sizes = [MAX_CHARS, *SHORTER]
        while True:
            try:
                result = await extract_fallback(
                    extraction, self.driver.signature, reason, *known, max_chars=sizes.pop(0)
                )
            except ModelError as error:
                if error.kind == "context" and sizes:  # the model that extracts may read less than the main one
                    continue
                why = f"{reason}; the extraction model could not be asked ({error.kind}): {error}"
                return self._failed(why, FailureCause("model", error.kind))
            if isinstance(result, Failed) and result.partial_outputs is None:
                result = replace(result, partial_outputs=self.tools.rejected)
            return grounding.noted(result, self.tools.unread)

    async def _child(self, signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """`rlm_query`: a run of its own, on the same budget."""
        child = Signature.of(signature, reserved=RESERVED)
        driver = replace(self.driver, signature=child, checks=(), act=None, task=None, guidance=None, sealed={})
        if self.ledger.depth + 1 > self.driver.depth:
            raise DepthExceeded(f"child runs may nest {self.driver.depth} deep")
        checked = driver._checked(inputs)
        self.ledger.reserve_call()  # it asks models on behalf of a cell, as any call does
        result = await _Run(driver, checked, self.ledger.child(is_call=True), parent=self.id).go()
        if isinstance(result, Failed):
            raise RuntimeError(f"the sub-task gave no answer: {result.reason}")
        return child.outputs_to_json(result.outputs)

    async def _check(self, outputs: Mapping[str, Any]) -> str | None:
        signature = self.driver.signature
        # With defaults, where nothing was given: a check can be about these, too.
        whole = {**signature.outputs_to_json(signature.check_outputs(outputs)), **outputs}
        return await failed_check(self.driver.checks, whole, self.driver.isolation, self.driver.pool)

    def _failed(self, reason: str, cause: FailureCause) -> Failed:
        return Failed(reason, self.tools.rejected, cause=cause)


def _output(result: sandbox.CellResult) -> str:
    """What the model sees of a cell: what it printed, the last value, the error, a limit that was reached."""
    parts = [result.text.rstrip("\n")] if result.text else []
    if result.value is not None:
        parts.append(result.value)
    if result.error is not None:
        parts.append(result.error.traceback.rstrip("\n"))
    if result.limit is not None and str(result.limit) not in "\n".join(parts):
        parts.append(f"[{result.limit}]")
    return "\n".join(parts)
