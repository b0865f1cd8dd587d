"""The extraction at the end of a run that did not submit: outputs from the history and the live variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox import Variable

from ..budgets import FallbackReason
from ..extraction.fallback import Extraction, extract_fallback
from ..extraction.prompt import MAX_CHARS, SHORTER
from ..history import REPLHistoryEntry
from ..models.client import ModelError
from ..results import Extracted, Failed, FailureCause
from . import event_data
from .config import RunConfig
from .conversation import Conversation
from .llm import RunModels
from .output_checks import output_check

TIMEOUT_S = 60.0, 600.0
"""How long one answer may take, at least and at most: twice the time of the run, in between."""


async def extract_outputs(
    config: RunConfig,
    models: RunModels,
    conversation: Conversation,
    reason: FallbackReason,
    history: Sequence[REPLHistoryEntry],
    variables: Mapping[str, Variable],
    inputs: Mapping[str, Any],
) -> Extracted[Any] | Failed:
    """Ask the extraction model, with a shorter prompt where it can read less than the main one."""
    emit, profile = models.emit, models.profile
    timeout = min(max(2 * config.trigger.max_duration, TIMEOUT_S[0]), TIMEOUT_S[1])
    extraction = Extraction(
        models.extraction_agent(config.signature, conversation, timeout),
        scorer=config.scorer,
        on_attempt=lambda attempt, text: emit(event_data.extraction_attempted(emit.run_id, attempt, text)),
        check=output_check(config) if config.checks else None,
    )
    evidence = profile.evidence(variables, (entry.code for entry in history))
    sizes = [MAX_CHARS, *SHORTER]
    while True:
        try:
            return await extract_fallback(
                extraction, config.signature, reason, history, evidence, inputs, max_chars=sizes.pop(0)
            )
        except ModelError as error:
            if error.kind == "context" and sizes:
                continue
            why = f"{reason}; the extraction model could not be asked ({error.kind}): {error}"
            return Failed(why, cause=FailureCause("model", error.kind))
