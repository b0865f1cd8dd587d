"""Plans: several ways to do a task, compared, run and judged, and the escalation if all are rejected.

    rlm.Predict("log -> arrivals: int", plans=PlanSettings(count=3, models={"strong": lm}))

`docs/plans.md` shows how one run with plans flows through these modules. `PlanEscalationDetector` also works alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..events import FailedThreshold
    from .candidates import compare, similarity
    from .escalation import PlanEscalationDetector
    from .json_log import JsonLog, JsonLogError
    from .logs import PlanLogs
    from .plan import Candidate, CandidateSet, Plan, Scores, Weights
    from .settings import FallbackConfig, Judge, Operator, PlanSettings, Thresholds

__all__ = [
    "Candidate",
    "CandidateSet",
    "FailedThreshold",
    "FallbackConfig",
    "JsonLog",
    "JsonLogError",
    "Judge",
    "Operator",
    "Plan",
    "PlanEscalationDetector",
    "PlanLogs",
    "PlanSettings",
    "Scores",
    "Thresholds",
    "Weights",
    "compare",
    "similarity",
]

# A task file is read, and a model is asked, without most of these modules.
_MODULES = {
    "Candidate": ".plan",
    "CandidateSet": ".plan",
    "FailedThreshold": "..events",
    "FallbackConfig": ".settings",
    "JsonLog": ".json_log",
    "JsonLogError": ".json_log",
    "Judge": ".settings",
    "Operator": ".settings",
    "Plan": ".plan",
    "PlanEscalationDetector": ".escalation",
    "PlanLogs": ".logs",
    "PlanSettings": ".settings",
    "Scores": ".plan",
    "Thresholds": ".settings",
    "Weights": ".plan",
    "compare": ".candidates",
    "similarity": ".candidates",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
