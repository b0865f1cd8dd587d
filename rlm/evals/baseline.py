"""The direct baseline: a task without a REPL, with the whole input in the prompt of the main model."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..budgets import Ledger
from ..events import Emitter, Observer, RunEnded, RunInterrupted, ignore
from ..extraction.errors import MaxRetriesExceeded
from ..extraction.retry import ExtractionOrchestrator, Reply
from ..reading.direct import direct_prompt
from ..repl import event_data
from ..repl.config import RunConfig
from ..repl.llm import RunModels, exclude_waiting
from ..repl.result import failure
from ..results import ExecutionResult, Failed, Submitted
from ..signatures import InvalidOutputs, Signature

if TYPE_CHECKING:
    from ..tasks import Task


async def run_direct(task: Task, make: Callable[..., Any], *, observe: Observer = ignore) -> ExecutionResult[Any]:
    """Send the main model one prompt with the whole input; retry an invalid answer as in an extraction.

    The run emits events as every run does. It has no iterations, only extraction attempts.
    """
    model = make(task.models.main, "main")
    driver = RunConfig(task.signature, model, trigger=task.trigger, observe=observe, task=task.source)
    inputs = task.signature.check_inputs(task.inputs)
    ledger, emit = Ledger(task.trigger), Emitter(uuid.uuid4().hex[:12], observe)
    emit(event_data.run_started(emit.run_id, driver, ledger, inputs, baseline="direct"))
    asker = RunModels(model, model, model, ledger, emit)
    try:
        left = ledger.seconds_left()
        async with exclude_waiting(asyncio.timeout(left if math.isfinite(left) else None)):
            result = await _answer(task.signature, inputs, asker, emit)
    except TimeoutError:
        result = Failed(f"no answer within {task.trigger.max_duration:g} seconds")
    except asyncio.CancelledError:
        emit(RunInterrupted(emit.run_id))
        raise
    except Exception as error:
        result = failure(error)
    result = replace(result, usage=ledger.usage(), run_id=emit.run_id)
    asker.emit_tiers()
    emit(RunEnded(emit.run_id, result))
    return result


async def _answer(
    signature: Signature, inputs: Mapping[str, Any], asker: RunModels, emit: Emitter
) -> Submitted[Any] | Failed:
    schema = signature.output_schema()
    accepted: list[Any] = []

    async def agent(text: str) -> Reply:
        answer = await asker.extraction(text, signature, schema=schema)
        return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

    def check(value: Any) -> Any:
        try:
            accepted[:] = [signature.check_outputs(value)]
        except InvalidOutputs as error:
            return error.problems
        return None

    try:
        await ExtractionOrchestrator(schema, callback=check).extract(
            agent,
            direct_prompt(signature, inputs),
            on_attempt=lambda made, text: emit(event_data.extraction_attempted(emit.run_id, made, text)),
        )
    except MaxRetriesExceeded as error:
        return Failed(f"no usable answer in {error.attempts} attempts", error.best_invalid)
    return Submitted(accepted[0], 0, 0)
