"""The result of a run, completed: with the history, the usage, the evidence and the confidence.

What these are is not decided here: see `provenance` for the evidence, `trust` for the confidence.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sandbox import SandboxError

from ..calibration.calibrator import Calibrator
from ..extraction.evidence.find import find_evidence
from ..history import REPLHistoryEntry
from ..models.client import ModelError
from ..results import Evidence, ExecutionResult, Extracted, Failed, FailureCause, Submitted
from . import trust
from .extraction import plain_inputs
from .provenance import with_evidence

if TYPE_CHECKING:
    from .loop import RunLoop

Ending = TypeVar("Ending", bound=Submitted[Any] | Extracted[Any] | Failed)


def failure(error: Exception) -> Failed:
    """Return the result of a run that an exception ended."""
    kind = type(error).__name__
    match error:
        case ModelError():
            cause = FailureCause("model", error.kind)
            return Failed(f"the model could not be asked ({error.kind}): {error}", cause=cause)
        case SandboxError():
            return Failed(f"the sandbox could not go on: {error}", cause=FailureCause("sandbox", kind))
    return Failed(f"the run broke off: {kind}: {error}", cause=FailureCause("fault", kind))


def interrupted(run: RunLoop) -> Failed:
    """Return what there is of an answer now: the history so far, and outputs that were refused."""
    reason = f"the run has not ended; iterations so far: {len(run.history)}"
    result = complete(Failed(reason, cause=FailureCause("interrupted")), run)
    if run.running is None:
        return result
    entry = REPLHistoryEntry(*run.running, "[interrupted]", False, tuple(run.calls.timed), printed_chars=0)
    return replace(result, history=(*result.history, entry))


def complete(result: Ending, run: RunLoop) -> Ending:
    """Return the result with what all endings carry. `Failed` gets the outputs that were last submitted."""
    history, usage = tuple(run.history), run.ledger.usage()
    if isinstance(result, Failed) and result.partial_outputs is None:
        result = replace(result, partial_outputs=_submitted(run))
    about: dict[str, Any] = {"iterations": len(history), "history": history, "usage": usage, "run_id": run.id}
    return replace(result, **about)


def judge(result: ExecutionResult[Any], run: RunLoop) -> ExecutionResult[Any]:
    """Return the result with its evidence and features, and with the probability where there is a calibrator."""
    config, history = run.config, list(run.history)
    earlier = config.kernels.earlier
    inputs = {**config.kernels.inputs, **run.inputs} if earlier else run.inputs
    known = (history, inputs, run.answers, config.tools.keys())
    if isinstance(result, Failed):
        places = _places(result.partial_outputs, run)
        given = run.tools.given if places is None else None
        return with_evidence(
            result, config.signature, *known, given, config.checks, run.first, places or (), earlier=earlier
        )
    texts = run.texts.known
    result = with_evidence(
        result, config.signature, *known, run.tools.given, config.checks, run.first, texts=texts, earlier=earlier
    )
    found: trust.Features = result.features
    if isinstance(result, Submitted):
        always = isinstance(config.scorer, Calibrator)
        seen = (run.session.variables, history, run.inputs)
        found = trust.searched_features(result, config.signature, *seen, always=always)
    left, most = run.ledger.remaining(len(history)).iterations, run.ledger.trigger.max_iterations
    share = left / most if left is not None and most else 0.0
    unread = bool(run.grounding.unread)
    result = trust.with_features(result, config.signature, found, budget_left=share, is_unread=unread)
    said = None if run.ballot is None else run.ballot.agreement(run.id)
    if said is not None:
        result = replace(result, agreement=said)
        result = trust.with_agreement(result, said["votes"], said["answers"], said["of"])
    return trust.judged(result, config.scorer, config.signature)


def _submitted(run: RunLoop) -> Any:
    """Return what was last given to SUBMIT, as plain JSON; None if nothing was."""
    outputs = None if run.first is None else run.config.signature.outputs_to_json(run.first.outputs)
    return outputs or run.tools.rejected


def _places(partial: Any, run: RunLoop) -> tuple[Evidence, ...] | None:
    """Return where partial outputs were found that an extraction gave; None for outputs that code submitted."""
    if not isinstance(partial, dict) or partial == _submitted(run):
        return None
    try:
        return find_evidence(partial, run.session.variables, list(run.history), plain_inputs(run.inputs)).evidence
    except Exception:  # a failure keeps its reason
        logging.getLogger("rlm").exception("partial outputs could not be searched for")
        return ()
