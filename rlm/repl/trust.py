"""How far to trust an answer: the features of each field, from all that is known of its run, and a judgement by them.

One way for all endings. Without a calibrator nothing is judged here: `Submitted` stays unverified, and `Extracted` has
the confidence of the formula.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sandbox import Variable

from ..calibration.calibrator import Calibrator
from ..extraction.confidence import Scorer
from ..extraction.evidence.features import features
from ..extraction.evidence.find import find_evidence
from ..history import REPLHistoryEntry
from ..provenance.evidence import PART_TAKEN
from ..results import Evidence, Extracted, Failed, Submitted
from ..signatures import Signature
from .extraction import UNREAD_CONFIDENCE, plain_inputs

_logger = logging.getLogger("rlm")
_MAX_SEARCHED = 5_000_000
_SHARES = {
    "computed": "computed",
    "quoted": "quoted",
    "said": "said",
    "typed": "typed",
    "defaulted": "defaulted",
    "none": "unknown",
}

Ending = TypeVar("Ending", bound=Submitted[Any] | Extracted[Any] | Failed)
Features = Mapping[str, Mapping[str, float]]


def searched_features(
    result: Submitted[Any],
    signature: Signature,
    variables: Mapping[str, Variable],
    history: Sequence[REPLHistoryEntry],
    inputs: Mapping[str, Any],
    *,
    always: bool,
) -> Features:
    """Return what is found of submitted outputs in the variables, the output and the code, as for extracted ones.

    Inputs that are large are searched only where a calibrator needs it (`always`).
    """
    if not always and sum(len(value) for value in inputs.values() if isinstance(value, str)) > _MAX_SEARCHED:
        return {}
    outputs = signature.outputs_to_json(result.outputs)
    plain = plain_inputs(inputs)
    findings = find_evidence(outputs, variables, history, plain)
    return features(outputs, findings, variables, history, plain)


def with_features(
    result: Ending, signature: Signature, found: Features, *, budget_left: float = 0.0, is_unread: bool = False
) -> Ending:
    """Return a result with the features of each field: those that were `found`, and those of its evidence.

    `is_unread`: no code has read any of the long inputs.
    """
    if isinstance(result, Failed):
        return result
    rows: dict[str, dict[str, float]] = {}
    for name in (field.name for field in signature.outputs):
        row = dict(found.get(name, {}))
        row |= _of_evidence([piece for piece in result.evidence if piece.field == name])
        row |= {"submitted": float(isinstance(result, Submitted)), "budget_left": budget_left}
        if is_unread:
            row["unread"] = 1.0
        rows[name] = {feature: value for feature, value in row.items() if value}  # most are zero
    return replace(result, features=rows)


def with_agreement(result: Ending, votes: Mapping[str, int], answers: int, runs: int) -> Ending:
    """Return a result whose features say how many of several runs gave each value. `votes` are by JSON pointer.

    `answers` is how many of the runs gave an answer.
    """
    if isinstance(result, Failed) or runs < 2:
        return result
    rows: dict[str, Mapping[str, float]] = {}
    for name, row in result.features.items():
        counts = [count for place, count in votes.items() if place.split("/")[1] == name]
        agree = min(counts, default=1)
        about = {"silent": (runs - answers) / (runs - 1)}
        if answers > 1:
            about |= {
                "compared": 1.0,
                "dissent": (answers - agree) / (answers - 1),
                "backers": math.log1p(max(0, agree - 1)),
            }
        rows[name] = {**row, **{feature: value for feature, value in about.items() if value}}
    return replace(result, features=rows)


def judged(result: Ending, scorer: Scorer, signature: Signature) -> Ending | Failed:
    """Return a result with a calibrator's probability; `Failed` if the calibrator's rule does not accept it.

    The probability is limited where no code has read any of the long inputs.
    """
    if not isinstance(scorer, Calibrator) or isinstance(result, Failed):
        return result
    try:
        judgement = scorer.judge(result.features)
        probability, fields = judgement.confidence, dict(judgement.fields)
        if any(row.get("unread") == 1 for row in result.features.values()):
            probability = min(probability, UNREAD_CONFIDENCE)
            fields = {name: min(value, UNREAD_CONFIDENCE) for name, value in fields.items()}
        refused = scorer.rule.refuses(probability) if scorer.rule is not None else None
    except Exception:  # an answer is not lost because of its confidence
        _logger.exception("the confidence in the outputs could not be computed")
        return result
    if refused is not None:
        return _refused(result, refused, probability, judgement.note, signature)
    about: dict[str, Any] = {"probability": probability, "field_confidence": fields}
    if isinstance(result, Extracted):
        notes = "\n".join(filter(None, [result.extraction_notes, judgement.note])) or None
        return replace(result, confidence=probability, extraction_notes=notes, **about)
    return replace(result, notes=judgement.note, **about)


def _refused(
    result: Submitted[Any] | Extracted[Any], why: str, probability: float, note: str | None, signature: Signature
) -> Failed:
    reason = f"{result.reason}; {why}" if isinstance(result, Extracted) else why
    return Failed(
        f"{reason} ({note})" if note else reason,
        signature.outputs_to_json(result.outputs),
        result.history,
        iterations=result.iterations,
        evidence=result.evidence,
        usage=result.usage,
        run_id=result.run_id,
        plan=result.plan,
        agreement=result.agreement,
        probability=probability,
    )


def _of_evidence(pieces: Sequence[Evidence]) -> dict[str, float]:
    """Return the features of the evidence for one field."""
    origins = [piece for piece in pieces if piece.is_origin and "/quotes/" not in piece.path]
    verdicts = [piece.verdict for piece in pieces if piece.kind == "program"]
    beside = {
        "checked": float(any(piece.kind == "check" for piece in pieces)),
        "confirmed": float("agrees" in verdicts),
        "contradicted": float("differs" in verdicts),
        "cited": float(any("/quotes/" in piece.path and piece.kind == "quoted" for piece in pieces)),
    }
    if not origins:
        return beside
    row = {name: sum(piece.kind == kind for piece in origins) / len(origins) for kind, name in _SHARES.items()}
    read = [piece.coverage for piece in origins if piece.inputs]
    row["unread"] = 1 - min((share for share in read if share is not None), default=1.0)
    row["unsure"] = float(None in read)
    row["chosen"] = float(any(piece.is_chosen for piece in origins))
    row["retyped"] = float(any(piece.kind == "typed" and "printed" in (piece.note or "") for piece in origins))
    row["cut"] = float(any(PART_TAKEN in (piece.note or "") for piece in origins))
    row["calls"] = float(any(piece.calls for piece in origins))
    return row | beside
