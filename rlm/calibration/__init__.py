"""Calibration of confidence: the probability that an extracted answer is correct, fitted on runs with known answers.

See docs/confidence.md.

calibrator = rlm.calibration.load("calibrator.json")
rlm.Predict("doc -> answer: int", confidence=calibrator.accepting(0.1))
"""

from __future__ import annotations

from ..extraction.evidence.features import FEATURES
from .calibrator import Calibrator
from .dataset import Answer, answers_of, features_of
from .io import CalibratorError, load, save, scorer_of
from .select import Report, TooLittle, calibrate
from .threshold import NoRule, Rule

__all__ = [
    "FEATURES",
    "Answer",
    "Calibrator",
    "CalibratorError",
    "NoRule",
    "Report",
    "Rule",
    "TooLittle",
    "answers_of",
    "calibrate",
    "features_of",
    "load",
    "save",
    "scorer_of",
]
