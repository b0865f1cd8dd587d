"""The fallback: the outputs of a run that did not submit, extracted from its history and live variables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..budgets import FallbackReason
from ..history import REPLHistoryEntry
from ..results import Extracted, Failed
from ..signatures import InvalidOutputs, Signature
from ..text import shorten
from .confidence import Scorer, judge, score
from .errors import MaxRetriesExceeded
from .evidence.features import features
from .evidence.find import find_evidence
from .prompt import MAX_CHARS, ExtractFallbackInputs, build, extraction_schema, settle_nulls, split_notes
from .retry import DEFAULT_ATTEMPTS, AgentFn, Attempt, ExtractionOrchestrator, Rejection

if TYPE_CHECKING:
    from sandbox.results import Variable

_MAX_PROBLEM_CHARS = 300


@dataclass(frozen=True, slots=True)
class Extraction:
    """The model and the checks of an extraction."""

    agent_fn: AgentFn
    max_attempts: int = DEFAULT_ATTEMPTS
    scorer: Scorer = score
    on_attempt: Callable[[Attempt, str], None] | None = None
    """Called with each attempt and its prompt."""

    check: Callable[[Mapping[str, Any]], Awaitable[str | None]] | None = None
    """Further checks of outputs that fit the signature. Returns what is wrong, or None."""


async def extract_fallback(
    extraction: Extraction,
    signature: Signature,
    reason: FallbackReason,
    history: Sequence[REPLHistoryEntry],
    variables: Mapping[str, Variable],
    inputs: Mapping[str, Any],
    *,
    max_chars: int = MAX_CHARS,
) -> Extracted[Any] | Failed:
    """Return the outputs with evidence and confidence, or `Failed` with partial outputs.

    Exceptions of the model pass. The prompt has at most `max_chars` characters.
    """
    prompt_inputs = ExtractFallbackInputs(history, variables, signature.outputs, str(reason))

    async def rejection(value: Mapping[str, Any]) -> Rejection:
        outputs, missing = settle_nulls(split_notes(value)[0], signature)
        if missing:  # null says that the value is unknown: another attempt would not help
            return None
        try:
            signature.check_outputs(outputs)
        except InvalidOutputs as error:
            return error.problems
        return await extraction.check(outputs) if extraction.check is not None else None

    orchestrator = ExtractionOrchestrator(
        extraction_schema(signature), max_attempts=extraction.max_attempts, callback=rejection
    )
    try:
        prompt = build(prompt_inputs, signature, max_chars)
        value, metrics = await orchestrator.extract(extraction.agent_fn, prompt, on_attempt=extraction.on_attempt)
    except MaxRetriesExceeded as error:
        failure = f"{reason}; the extraction gave no valid answer in {error.attempts} attempts"
        if problems := error.history[-1].problems:
            failure += f". The last problem: {shorten(str(problems[0]), _MAX_PROBLEM_CHARS)}"
        best = error.best_invalid
        return Failed(failure, split_notes(best)[0] if isinstance(best, dict) else best, tuple(history))
    answer, notes = split_notes(value)
    outputs, missing = settle_nulls(answer, signature)
    if missing:
        failure = f"{reason}; no value was found for {', '.join(missing)}"
        return Failed(f"{failure} ({notes})" if notes else failure, answer, tuple(history))
    typed = signature.check_outputs(outputs)
    findings = find_evidence(outputs, variables, history, inputs)
    numbers = features(answer, findings, variables, history, inputs, reason=reason.kind, attempts=metrics.attempts)
    findings = replace(findings, features=numbers)
    judgement = judge(extraction.scorer, answer, findings)
    if judgement.refused is not None:
        note = f" ({judgement.note})" if judgement.note else ""
        return Failed(f"{reason}; {judgement.refused}{note}", answer, tuple(history))
    return Extracted(
        typed,
        judgement.confidence,
        reason,
        "\n".join(filter(None, [notes, judgement.note])) or None,
        evidence=findings.evidence,
        field_confidence=judgement.fields,
        # Most features are zero, and are left out.
        features={field: {name: value for name, value in row.items() if value} for field, row in numbers.items()},
    )
