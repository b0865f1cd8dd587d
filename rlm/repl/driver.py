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

from pydantic_core import to_jsonable_python

import sandbox

from ..budgets import FallbackReason, FallbackTrigger, Ledger
from ..extraction.confidence import Scorer, score
from ..extraction.fallback import Extraction, extract_fallback
from ..extraction.orchestrator import Reply
from ..history import REPLHistory, REPLHistoryEntry
from ..models.ask import Answer, ModelError, ask
from ..results import ExecutionResult, Failed, Submitted
from ..signatures import Signature
from . import prompt
from .calls import CallLog
from .checks import failed_check
from .events import Event, Observer, ignore
from .reply import read_reply
from .session import Repl, helper_source
from .tools import RESERVED, DepthExceeded, ReplTools

Act = Callable[[prompt.Conversation], Any]


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
    pool: sandbox.Pool | None = None
    observe: Observer = ignore
    act: Act | None = None
    """Asks the main model for its next reply, if not plainly: `Predict` lets dspy's predictor do it."""

    async def run(self, inputs: Mapping[str, Any], *, ledger: Ledger | None = None) -> ExecutionResult[Any]:
        """One run, from its inputs to its ending. Raises `InvalidInputs` before anything is started; later, nothing."""
        self.signature.refuse_names(RESERVED)
        given = self.signature.check_inputs(inputs)
        return await _Run(self, given, ledger or Ledger(self.trigger)).go()


class _Run:
    """The state of one run."""

    def __init__(self, driver: Driver, inputs: Mapping[str, Any], ledger: Ledger) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.driver = driver
        self.ledger = ledger
        self.inputs = to_jsonable_python(dict(inputs), bytes_mode="utf8", fallback=lambda value: value)
        self.history = REPLHistory()
        self.tools = ReplTools(
            driver.signature,
            ledger,
            sub_model=driver.sub_model or driver.main_model,
            main_model=driver.main_model,
            child_run=self._child if ledger.depth < driver.depth else None,
            iterations=lambda: len(self.history),
            check=self._check if driver.checks else None,
        )
        functions = self.tools.functions(driver.tools)
        log = CallLog(self._notify)
        self.repl = Repl(
            self.inputs,
            functions,
            log,
            limits=driver.limits,
            isolation=driver.isolation,
            policy=driver.policy,
            pool=driver.pool,
        )
        budget = ledger.remaining(0)
        self.conversation = prompt.begin(driver.signature, self.inputs, functions, helper_source(), budget)

    async def go(self) -> ExecutionResult[Any]:
        """Run to the end. Whatever happens, the result carries the usage, the id and what was found out."""
        self._notify("run_started", {"signature": self.driver.signature.name, "inputs": sorted(self.inputs)})
        try:
            async with self.repl:
                result = await self._loop()
        except ModelError as error:
            result = self._failed(f"the model could not be asked ({error.kind}): {error}")
        except sandbox.SandboxError as error:
            result = self._failed(f"the sandbox could not go on: {error}")
        except Exception as error:  # a fault of ours, or of a tool: the run is kept all the same
            result = self._failed(f"the run broke off: {type(error).__name__}: {error}")
        result = replace(result, usage=self.ledger.usage(), run_id=self.id)
        self._notify("run_ended", {"ending": type(result).__name__, "confidence": result.confidence})
        return result

    async def _loop(self) -> ExecutionResult[Any]:
        while True:
            iterations = len(self.history)
            errors = self.history.consecutive_errors
            reason = self.ledger.should_trigger(iterations=iterations, consecutive_errors=errors)
            if reason is not None:
                return await self._extract(reason)
            await self._iterate(iterations + 1)
            if self.tools.submitted is not None:
                return Submitted(self.tools.submitted, len(self.history), self.ledger.usage().llm_calls)

    async def _iterate(self, number: int) -> None:
        """Ask, run, remember, tell."""
        self._notify("iteration_started", {"iteration": number})
        answer = await self._ask_main(number)
        step = read_reply(answer.text)
        if step.code is None:
            entry = REPLHistoryEntry(number, step.reasoning, "", "\n".join(step.remarks), False)
            told = prompt.told_without_code(step.remarks, self._remaining(number))
        else:
            entry, remarks = await self._run_cell(number, step.reasoning, step.code)
            told = prompt.told_after(entry.output, step.remarks + remarks, self._remaining(number))
        self.history.append(entry)
        self.conversation.add(answer.text, told)
        self.conversation.compact(list(self.history), self.repl.variables)
        self._notify_budget()

    async def _ask_main(self, number: int) -> Answer:
        self._notify("model_asked", {"iteration": number})
        began = time.monotonic()
        try:
            answer = await self._asked()
        except ModelError as error:
            if error.kind != "context" or not self.conversation.compact(
                list(self.history), self.repl.variables, force=True
            ):
                raise
            answer = await self._asked()
        self.ledger.record_usage(answer.tokens_in, answer.tokens_out, answer.cost_usd)
        facts = {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out, "cost_usd": answer.cost_usd}
        self._notify("model_answered", {"iteration": number, "seconds": time.monotonic() - began, **facts})
        return answer

    async def _asked(self) -> Answer:
        conversation = self.conversation
        if self.driver.act is not None:
            return await self.driver.act(conversation)  # type: ignore[no-any-return]
        turns = [(turn.role, turn.text) for turn in conversation.turns]
        return await ask(self.driver.main_model, turns, system=conversation.system)

    async def _run_cell(
        self, number: int, reasoning: str | None, code: str
    ) -> tuple[REPLHistoryEntry, tuple[str, ...]]:
        self._notify("cell_started", {"iteration": number, "code": code})
        result, recording, remarks = await self.repl.run(code, self.ledger.seconds_left())
        output = _output(result)
        if result.value is not None and not result.text:
            remarks += ("(The last line's value is shown; next time print what you want to see.)",)
        facts = {"iteration": number, "output": output, "success": result.ok, "seconds": result.seconds}
        self._notify("cell_ended", facts)
        calls = tuple(recording.calls)
        entry = REPLHistoryEntry(number, reasoning, code, output, result.ok, calls, self.repl.changed)
        return entry, remarks

    async def _extract(self, reason: FallbackReason) -> ExecutionResult[Any]:
        self._notify("trigger_fired", {"reason": str(reason)})
        model = self.driver.extraction_model or self.driver.main_model

        async def agent(text: str) -> Reply:
            answer = await ask(model, [("user", text)])
            self.ledger.record_usage(answer.tokens_in, answer.tokens_out, answer.cost_usd)
            return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

        extraction = Extraction(
            agent,
            scorer=self.driver.scorer,
            on_attempt=lambda number: self._notify("extraction_attempt", {"number": number}),
        )
        try:
            return await extract_fallback(
                extraction, self.driver.signature, reason, list(self.history), self.repl.variables, self.inputs
            )
        except ModelError as error:
            return self._failed(f"{reason}; the extraction model could not be asked ({error.kind}): {error}")

    async def _child(self, signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """`rlm_query`: a run of its own, on the same budget."""
        child = Signature.of(signature, reserved=RESERVED)
        driver = replace(self.driver, signature=child, checks=(), act=None)
        if self.ledger.depth + 1 > self.driver.depth:
            raise DepthExceeded(f"child runs may nest {self.driver.depth} deep")
        result = await driver.run(inputs, ledger=self.ledger.child())
        if isinstance(result, Failed):
            raise RuntimeError(f"the sub-task gave no answer: {result.reason}")
        return child.outputs_to_json(result.outputs)

    async def _check(self, outputs: Mapping[str, Any]) -> str | None:
        return await failed_check(self.driver.checks, outputs, self.driver.isolation, self.driver.pool)

    def _failed(self, reason: str) -> Failed:
        return Failed(reason, self.tools.rejected, tuple(self.history))

    def _remaining(self, iterations: int) -> Any:
        return self.ledger.remaining(iterations)

    def _notify(self, kind: str, data: dict[str, Any]) -> None:
        self.driver.observe(Event(kind, self.id, data))

    def _notify_budget(self) -> None:
        used, trigger = self.ledger.usage(), self.ledger.trigger
        self._notify(
            "budget",
            {
                "iterations": len(self.history),
                "max_iterations": trigger.max_iterations,
                "llm_calls": used.llm_calls,
                "max_llm_calls": trigger.max_llm_calls,
                "seconds": used.seconds,
                "max_duration": trigger.max_duration,
                "tokens": used.tokens,
                "cost_usd": used.cost_usd,
            },
        )


def _output(result: sandbox.CellResult) -> str:
    """What the model sees of a cell: what it printed, the last value, the error, a limit that was reached."""
    parts = [result.text.rstrip("\n")] if result.text else []
    if result.value is not None:
        parts.append(result.value)
    if result.error is not None:
        parts.append(result.error.traceback.rstrip("\n"))
    elif result.limit is not None:
        parts.append(f"[{result.limit}]")
    return "\n".join(parts)


def run_sync(work: Callable[[], Any]) -> Any:
    """Run a coroutine function to its end from code that is not asynchronous, also where a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    context = contextvars.copy_context()  # dspy's settings are in it
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(context.run, lambda: asyncio.run(work())).result()
