"""Plans: several ways to do a task, compared, run and judged, and the escalation if all are rejected.

    rlm.Predict("log -> arrivals: int", plans=PlanSettings(count=3, models={"strong": lm}))

`docs/plans.md` shows how one run with plans flows through these modules. `PlanEscalationDetector` also works alone.
"""

from ..events import FailedThreshold
from .candidates import compare, similarity
from .escalation import FallbackConfig, PlanEscalationDetector
from .json_log import JsonLog, JsonLogError
from .logs import PlanLogs
from .plan import Candidate, CandidateSet, Plan, Scores, Weights
from .settings import Judge, Operator, PlanSettings, Thresholds

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
