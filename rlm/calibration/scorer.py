"""What scores the answers of a run, from what a caller or a task file names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..extraction.confidence import Scorer
from .calibrator import Calibrator
from .io import load


def scorer_of(confidence: Scorer | str | Path, accept_at: Mapping[str, float] | None = None) -> Scorer:
    """A function as it is; a path as the calibrator in it; either with a rule, which only a calibrator can have.

    Raises `CalibratorError` for the file, `NoRule` where no threshold keeps the error, `TypeError` for what is neither,
    `ValueError` for the rest.
    """
    scorer = load(confidence) if isinstance(confidence, str | Path) else confidence
    if not callable(scorer):
        raise TypeError(
            "confidence is a function of the outputs and their evidence, or the path of a calibrator, as in "
            f"confidence='calibrator.json'; not {confidence!r:.60}. Leave it out for the formula."
        )
    if accept_at is None:
        return scorer
    if not isinstance(accept_at, Mapping) or set(accept_at) != {"error"}:
        raise ValueError(f"accept_at is {{'error': share}}, such as {{'error': 0.1}}, not {accept_at!r}")
    if not isinstance(scorer, Calibrator):
        raise ValueError(
            "accept_at needs a calibrator: confidence='calibrator.json', as `rlm eval calibrate` writes it"
        )
    return scorer.accepting(accept_at["error"])


def for_models(scorer: Scorer, models: Iterable[str]) -> Scorer:
    """The scorer for runs with these models: a calibrator notes where it was not fitted on them."""
    return scorer.used_with(models) if isinstance(scorer, Calibrator) else scorer
