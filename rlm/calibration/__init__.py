"""How likely an extracted answer is right: learnt from runs whose right answers are known. See docs/confidence.md.

calibrator = rlm.calibration.load("calibrator.json")
rlm.Predict("doc -> answer: int", confidence=calibrator.accepting(0.1))
"""

from __future__ import annotations

from .accepting import NoRule, Rule
from .answers import Answer, answers_of
from .calibrator import Calibrator
from .choosing import scorer_of
from .deciding import Report, TooLittle, calibrate
from .features import FEATURES, features_of
from .files import CalibratorError, load, save

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
