"""Calibration of confidence: the probability that an extracted answer is correct, fitted on runs with known answers.

See docs/confidence.md.

calibrator = rlm.calibration.load("calibrator.json")
rlm.Predict("doc -> answer: int", confidence=calibrator.accepting(0.1))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..extraction.evidence.features import FEATURES
    from .calibrator import Calibrator
    from .dataset import Answer, answers_of, features_of
    from .io import CalibratorError, load, save, scorer_of
    from .select import Report, TooFewSamples, calibrate
    from .threshold import NoThreshold, Rule

__all__ = [
    "FEATURES",
    "Answer",
    "Calibrator",
    "CalibratorError",
    "NoThreshold",
    "Report",
    "Rule",
    "TooFewSamples",
    "answers_of",
    "calibrate",
    "features_of",
    "load",
    "save",
    "scorer_of",
]

# A task file is read, and a model is asked, without most of these modules.
_MODULES = {
    "Answer": ".dataset",
    "Calibrator": ".calibrator",
    "CalibratorError": ".io",
    "FEATURES": "..extraction.evidence.features",
    "NoThreshold": ".threshold",
    "Report": ".select",
    "Rule": ".threshold",
    "TooFewSamples": ".select",
    "answers_of": ".dataset",
    "calibrate": ".select",
    "features_of": ".dataset",
    "load": ".io",
    "save": ".io",
    "scorer_of": ".io",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
