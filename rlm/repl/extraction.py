"""The extraction at the end of a run that did not submit: outputs from the history and the live variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from sandbox import Variable

from ..budgets import BudgetExceeded, FallbackReason
from ..calibration.calibrator import Calibrator
from ..extraction.confidence import score
from ..extraction.fallback import Extraction, extract_fallback
from ..extraction.prompt import MAX_CHARS, SHORTER
from ..history import REPLHistoryEntry
from ..models.client import ModelError
from ..results import Extracted, Failed, FailureCause
from . import event_data
from .config import RunConfig
from .conversation import Conversation
from .llm import CHARS_PER_TOKEN, TOKENS_OF_ANSWER, RunModels
from .output_checks import output_check

_LEAST_CHARS = 3_000
UNREAD_CONFIDENCE = 0.5
"""The most confidence in values for which no code has read the inputs."""


async def extract_outputs(
    config: RunConfig,
    models: RunModels,
    conversation: Conversation,
    reason: FallbackReason,
    history: Sequence[REPLHistoryEntry],
    variables: Mapping[str, Variable],
    inputs: Mapping[str, Any],
    unread: frozenset[str],
) -> Extracted[Any] | Failed:
    """Ask the extraction model, with a shorter prompt where it can read less than the main one.

    `unread` are the long inputs, if no code has read any of them: they limit the confidence.
    """
    emit, profile = models.emit, models.profile
    extraction = Extraction(
        models.extraction_agent(config.signature, conversation),
        # A calibrator judges when the run has ended, with all that is known then: `trust.judged`.
        scorer=score if isinstance(config.scorer, Calibrator) else config.scorer,
        on_attempt=lambda attempt, text: emit(event_data.extraction_attempted(emit.run_id, attempt, text)),
        check=output_check(config, inputs),
    )
    # The values of the outputs are compared as JSON.
    inputs = plain_inputs(inputs)
    variables = profile.usable_variables(variables, (entry.code for entry in history))
    payable = models.ledger.payable_tokens()
    room = int(min(MAX_CHARS, CHARS_PER_TOKEN * (payable - TOKENS_OF_ANSWER)))
    if room < _LEAST_CHARS:
        return Failed(f"{reason}; {models.ledger.scarce()}")
    sizes = [room, *(size for size in SHORTER if size < room)]
    while True:
        try:
            result = await extract_fallback(
                extraction, config.signature, reason, history, variables, inputs, max_chars=sizes.pop(0)
            )
            return _limit_confidence(result, unread)
        except BudgetExceeded as error:
            return Failed(f"{reason}; {error}")
        except ModelError as error:
            if error.kind == "context" and sizes:
                continue
            why = f"{reason}; the extraction model could not be asked ({error.kind}): {error}"
            return Failed(why, cause=FailureCause("model", error.kind))


def plain_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as they are searched: texts, bytes and plain JSON."""
    return {
        name: value if isinstance(value, str | bytes) else to_jsonable_python(value) for name, value in inputs.items()
    }


def _limit_confidence(result: Extracted[Any] | Failed, unread: Collection[str]) -> Extracted[Any] | Failed:
    """Return the result; where no code has read the inputs, with a note and the confidence of no evidence at all.

    What is in the variables then is the model's own, and finding it there again says nothing.
    """
    if not unread or not isinstance(result, Extracted):
        return result
    note = f"No code has read {', '.join(sorted(unread))}: what is in the variables was written there by the model."
    return replace(
        result,
        confidence=min(result.confidence, UNREAD_CONFIDENCE),
        field_confidence={name: min(value, UNREAD_CONFIDENCE) for name, value in result.field_confidence.items()},
        extraction_notes="\n".join(filter(None, [result.extraction_notes, note])),
    )
