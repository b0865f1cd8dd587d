"""The fallback: outputs out of the history and the live variables of a run that did not submit, and their worth."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..budgets import FallbackReason
from ..history import REPLHistoryEntry
from ..results import Extracted, Failed
from ..signatures import InvalidOutputs, Signature
from ..text import shorten
from .confidence import Scorer, judged, score
from .errors import MaxRetriesExceeded
from .evidence.features import features
from .evidence.find import find_evidence
from .prompt import MAX_CHARS, ExtractFallbackInputs, build, extraction_schema, settle_nulls, split_notes
from .retry import AgentFn, Attempt, ExtractionOrchestrator, Rejection

if TYPE_CHECKING:
    from sandbox.results import Variable

DEFAULT_ATTEMPTS = 3
_MAX_SAID = 300


@dataclass(frozen=True, slots=True)
class Extraction:
    """How an extraction is made."""

    agent_fn: AgentFn
    max_attempts: int = DEFAULT_ATTEMPTS
    scorer: Scorer = score
    on_attempt: Callable[[Attempt, str], None] | None = None
    """Told of each attempt, and its prompt."""

    check: Callable[[Mapping[str, Any]], Awaitable[str | None]] | None = None
    """Further checks of outputs that fit the signature: what is wrong, in words, or nothing."""


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
    """The outputs with their evidence and confidence, or `Failed` with what there is. Raises what the model raises.

    `max_chars` is how long the prompt may be.
    """
    given = ExtractFallbackInputs(history, variables, signature.outputs, str(reason))

    async def rejection(value: Mapping[str, Any]) -> Rejection:
        outputs, missing = settle_nulls(split_notes(value)[0], signature)
        if missing:  # null says that it is not known: no use to ask again
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
        prompt = build(given, signature, max_chars)
        value, metrics = await orchestrator.extract(extraction.agent_fn, prompt, on_attempt=extraction.on_attempt)
    except MaxRetriesExceeded as error:
        why = f"{reason}; the extraction gave no usable answer in {error.attempts} attempts"
        if problems := error.history[-1].problems:
            why += f". The last one: {shorten(str(problems[0]), _MAX_SAID)}"
        best = error.best_invalid
        return Failed(why, split_notes(best)[0] if isinstance(best, dict) else best, tuple(history))
    answer, notes = split_notes(value)
    outputs, missing = settle_nulls(answer, signature)
    if missing:
        why = f"{reason}; no value was found for {', '.join(missing)}"
        return Failed(f"{why} ({notes})" if notes else why, answer, tuple(history))
    typed = signature.check_outputs(outputs)
    findings = find_evidence(outputs, variables, history, inputs)
    seen = features(answer, findings, variables, history, inputs, reason=reason.kind, attempts=metrics.attempts)
    findings = replace(findings, features=seen)
    said = judged(extraction.scorer, answer, findings)
    if said.refused is not None:
        note = f" ({said.note})" if said.note else ""
        return Failed(f"{reason}; {said.refused}{note}", answer, tuple(history))
    return Extracted(
        typed,
        said.confidence,
        reason,
        "\n".join(filter(None, [notes, said.note])) or None,
        evidence=findings.evidence,
        field_confidence=said.fields,
        # What is zero is left out: it is most of it.
        features={name: {one: n for one, n in numbers.items() if n} for name, numbers in seen.items()},
    )
