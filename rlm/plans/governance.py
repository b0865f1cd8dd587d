"""Governance: checks the result of a plan against the thresholds, and lists those that it does not meet."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

from ..budgets import BudgetExceeded, FallbackTrigger, Usage
from ..events import FailedThreshold
from ..extraction.errors import ExtractionError
from ..extraction.retry import ExtractionOrchestrator
from ..models.client import ModelError
from ..repl.config import RunConfig
from ..repl.output_checks import failed_check
from ..repl.prompts import describe_inputs
from ..results import ExecutionResult, Extracted, Failed, Submitted
from ..text import shorten
from .context import LoopContext
from .prompts import template
from .settings import Judge, Thresholds

_MAX_OUTPUT_CHARS = 200

_VERDICT_SCHEMA = {
    "type": "object",
    "properties": {"acceptable": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["acceptable", "reason"],
    "additionalProperties": False,
}


async def judge(
    context: LoopContext, result: ExecutionResult[Any], share: FallbackTrigger
) -> tuple[FailedThreshold, ...]:
    """Return every threshold that a result does not meet; with none, it is accepted.

    `share` is the budget of the plan. The judging model is asked only about answers that meet all other thresholds,
    because it costs money.
    """
    thresholds, config = context.settings.thresholds, context.config
    failed = [*_check_result(result, thresholds), *overspent(result, share)]
    if not isinstance(result, Failed):
        outputs = config.signature.outputs_to_json(result.outputs)
        failed += await _check_invariants(outputs, thresholds.invariants, config)
        failed += await _call_function(result.outputs, thresholds.function)
        if thresholds.judge is not None and not failed:
            failed += await _ask_judge(context, outputs, thresholds.judge)
    return tuple(failed)


def overspent(result: ExecutionResult[Any], share: FallbackTrigger) -> list[FailedThreshold]:
    """Return the limits of its share that a plan has used up without submitting, or has exceeded."""
    used, submitted = result.usage, isinstance(result, Submitted)
    spent: list[tuple[str, float, float | None]] = [
        ("cost_usd", used.cost_usd or 0.0, share.max_cost_usd),
        ("tokens", used.tokens, share.max_tokens),
    ]
    if not submitted:
        spent += [("llm_calls", used.llm_calls, share.max_llm_calls), ("seconds", used.seconds, share.max_duration)]
    return [
        FailedThreshold(f"budget_share.{name}", limit, actual)
        for name, actual, limit in spent
        if limit is not None and (actual > limit or (actual == limit and not submitted))
    ]


def _check_result(result: ExecutionResult[Any], thresholds: Thresholds) -> list[FailedThreshold]:
    """Check the ending, the confidence and the usage of a result."""
    failed: list[FailedThreshold] = []
    used: Usage = result.usage
    if isinstance(result, Failed):
        failed.append(FailedThreshold("ending", "an answer", f"failed: {result.reason}"))
    elif isinstance(result, Extracted) and not thresholds.accept_extracted:
        failed.append(FailedThreshold("extracted", "a submitted answer", f"extracted: {result.reason}"))
    min_confidence, max_cost, max_seconds = thresholds.min_confidence, thresholds.max_cost_usd, thresholds.max_seconds
    if min_confidence is not None and result.confidence < min_confidence:
        failed.append(FailedThreshold("confidence", min_confidence, result.confidence))
    if max_cost is not None and (used.cost_usd or 0.0) > max_cost:
        failed.append(FailedThreshold("cost_usd", max_cost, used.cost_usd))
    if max_seconds is not None and used.seconds > max_seconds:
        failed.append(FailedThreshold("seconds", max_seconds, used.seconds))
    return failed


async def _check_invariants(
    outputs: dict[str, Any], invariants: tuple[str, ...], config: RunConfig
) -> list[FailedThreshold]:
    failed: list[FailedThreshold] = []
    for invariant in invariants:
        problem = await failed_check((invariant,), outputs, config.isolation, config.pool)
        if problem is not None:
            if "could not be made" not in problem:
                problem = f"not true of {shorten(json.dumps(outputs, ensure_ascii=False), _MAX_OUTPUT_CHARS)}"
            failed.append(FailedThreshold("invariant", invariant, problem))
    return failed


async def _call_function(outputs: Any, function: Callable[[Any], Any] | None) -> list[FailedThreshold]:
    if function is None:
        return []
    name = getattr(function, "__name__", "function")
    try:
        verdict = await asyncio.to_thread(function, outputs)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except Exception as error:  # raising is a way to reject, and a broken function accepts nothing
        verdict = f"{type(error).__name__}: {error}"
    if verdict is None or verdict is True:
        return []
    return [FailedThreshold("function", name, "not accepted" if verdict is False else str(verdict))]


async def _ask_judge(context: LoopContext, outputs: dict[str, Any], judge: Judge) -> list[FailedThreshold]:
    prompt = template("judge").substitute(
        instructions=context.config.signature.instructions,
        inputs=describe_inputs(context.config.signature, context.inputs),
        outputs=json.dumps(outputs, ensure_ascii=False),
        question=judge.question,
    )
    try:
        verdict, _ = await ExtractionOrchestrator(_VERDICT_SCHEMA).extract(
            lambda text: context.ask(judge.model, text, "judging"), prompt
        )
    except (ModelError, ExtractionError, BudgetExceeded) as error:
        return [FailedThreshold("judge", judge.question, f"the judging model gave no verdict: {error}")]
    return [] if verdict["acceptable"] else [FailedThreshold("judge", judge.question, verdict["reason"])]
