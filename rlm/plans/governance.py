"""Judging what came of a plan: every threshold that it does not meet, with what was wanted and what it was."""

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
from .context import Context
from .prompts import template
from .settings import Judge, Thresholds

_SHOWN_CHARS = 200

_VERDICT = {
    "type": "object",
    "properties": {"acceptable": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["acceptable", "reason"],
    "additionalProperties": False,
}


async def judge(context: Context, result: ExecutionResult[Any], share: FallbackTrigger) -> tuple[FailedThreshold, ...]:
    """Every threshold that a result does not meet; none accepts it. `share` is what the plan was allowed to use.

    The judging model is asked only about an answer that meets everything else: it costs money, and could only say no.
    """
    thresholds, driver = context.settings.thresholds, context.driver
    failed = [*_numbers(result, thresholds), *overspent(result, share)]
    if not isinstance(result, Failed):
        outputs = driver.signature.outputs_to_json(result.outputs)
        failed += await _invariants(outputs, thresholds.invariants, driver)
        failed += await _function(result.outputs, thresholds.function)
        if thresholds.judge is not None and not failed:
            failed += await _judged(context, outputs, thresholds.judge)
    return tuple(failed)


def overspent(result: ExecutionResult[Any], share: FallbackTrigger) -> list[FailedThreshold]:
    """What a plan used up of its share: reached without an answer, or exceeded by one that is dearer than it may be."""
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


def _numbers(result: ExecutionResult[Any], thresholds: Thresholds) -> list[FailedThreshold]:
    """What can be read off the result."""
    failed: list[FailedThreshold] = []
    used: Usage = result.usage
    if isinstance(result, Failed):
        failed.append(FailedThreshold("ending", "an answer", f"failed: {result.reason}"))
    elif isinstance(result, Extracted) and not thresholds.accept_extracted:
        failed.append(FailedThreshold("extracted", "a submitted answer", f"extracted: {result.reason}"))
    least, most, longest = thresholds.min_confidence, thresholds.max_cost_usd, thresholds.max_seconds
    if least is not None and result.confidence < least:
        failed.append(FailedThreshold("confidence", least, result.confidence))
    if most is not None and (used.cost_usd or 0.0) > most:
        failed.append(FailedThreshold("cost_usd", most, used.cost_usd))
    if longest is not None and used.seconds > longest:
        failed.append(FailedThreshold("seconds", longest, used.seconds))
    return failed


async def _invariants(outputs: dict[str, Any], invariants: tuple[str, ...], driver: RunConfig) -> list[FailedThreshold]:
    failed: list[FailedThreshold] = []
    for invariant in invariants:
        problem = await failed_check((invariant,), outputs, driver.isolation, driver.pool)
        if problem is not None:
            said = (
                problem
                if "could not be made" in problem
                else f"not true of {shorten(json.dumps(outputs, ensure_ascii=False), _SHOWN_CHARS)}"
            )
            failed.append(FailedThreshold("invariant", invariant, said))
    return failed


async def _function(outputs: Any, function: Callable[[Any], Any] | None) -> list[FailedThreshold]:
    if function is None:
        return []
    name = getattr(function, "__name__", "function")
    try:
        said = await asyncio.to_thread(function, outputs)
        if inspect.isawaitable(said):
            said = await said
    except Exception as error:  # it rejects by raising, too; and one that is broken accepts nothing
        said = f"{type(error).__name__}: {error}"
    if said is None or said is True:
        return []
    return [FailedThreshold("function", name, "not accepted" if said is False else str(said))]


async def _judged(context: Context, outputs: dict[str, Any], judge: Judge) -> list[FailedThreshold]:
    prompt = template("judge").substitute(
        instructions=context.driver.signature.instructions,
        inputs=describe_inputs(context.driver.signature, context.inputs),
        outputs=json.dumps(outputs, ensure_ascii=False),
        question=judge.question,
    )
    try:
        said, _ = await ExtractionOrchestrator(_VERDICT).extract(
            lambda text: context.ask(judge.model, text, "judging"), prompt
        )
    except (ModelError, ExtractionError, BudgetExceeded) as error:
        return [FailedThreshold("judge", judge.question, f"the judging model gave no verdict: {error}")]
    return [] if said["acceptable"] else [FailedThreshold("judge", judge.question, said["reason"])]
